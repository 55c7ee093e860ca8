"""Lower bounds on every metric that no legal mapping can undercut, proven, with the source of each part."""

from fadiff_mapper.search.lower_bound.assemble import (
           BoundPart,
           LowerBound,
           bound_record,
           gap,
           lower_bound,
           residual_lower_bound,
           sentence,
           sparse_lower_bound,
)

__all__ = ["BoundPart", "LowerBound", "bound_record", "gap", "lower_bound", "residual_lower_bound", "sentence",
           "sparse_lower_bound"]
