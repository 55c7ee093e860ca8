"""The map space: the mappings that architecture, problem and constraints leave open, and why there may be none.

Factors are divisors of their dimension (Timeloop's "uber" map space, only perfect factors); `size` counts the space as
`timeloop-mapper` does.
"""

from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace, divisors, reachable, rounded_up, size
from fadiff_mapper.search.mapspace.conflicts import Demand, check_mapping, conflicts, demands, without

__all__ = ["Demand", "MapSpace", "build_mapspace", "check_mapping", "conflicts", "demands", "divisors", "reachable",
           "rounded_up", "size", "without"]
