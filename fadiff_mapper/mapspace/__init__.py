"""The map space: the mappings that architecture, problem and constraints leave open, and why there may be none.

Factors are divisors of their dimension (Timeloop's "uber" map space, perfect factors alone); `size` counts the space
as `timeloop-mapper` does.
"""

from fadiff_mapper.mapspace.build import build_mapspace, rounded_up
from fadiff_mapper.mapspace.check_mapping import available, check_mapping
from fadiff_mapper.mapspace.conflicts import conflicts
from fadiff_mapper.mapspace.demands import Demand, demands, without
from fadiff_mapper.mapspace.factor_tables import NONE, NUMBER, FactorTables, factor_ranges, factor_tables, places
from fadiff_mapper.mapspace.factorize import divisors, factorization_count, factorizations, reachable
from fadiff_mapper.mapspace.size import Size, size
from fadiff_mapper.mapspace.space import LevelSpace, LoopSpace, MapSpace

__all__ = ["NONE", "NUMBER", "Demand", "FactorTables", "LevelSpace", "LoopSpace", "MapSpace", "Size", "available",
           "build_mapspace", "check_mapping", "conflicts", "demands", "divisors", "factor_ranges", "factor_tables",
           "factorization_count", "factorizations", "places", "reachable", "rounded_up", "size", "without"]
