"""Lower bounds on every metric that no legal mapping can undercut, proven, with the source of each part."""

from fadiff_mapper.search.lower_bound.assemble import (
           BoundPart,
           LeastInSteps,
           LowerBound,
           bound_record,
           gap,
           least_in_steps,
           lower_bound,
           residual_lower_bound,
           sentence,
           sparse_lower_bound,
)

__all__ = ["BoundPart", "LeastInSteps", "LowerBound", "bound_record", "gap", "least_in_steps", "lower_bound",
           "residual_lower_bound", "sentence", "sparse_lower_bound"]
