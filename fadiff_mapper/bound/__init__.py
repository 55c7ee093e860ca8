"""What no legal mapping can undercut: provable lower bounds on every metric, with the source of each part."""

from fadiff_mapper.bound.assemble import Bound, Part, lower_bound

__all__ = ["Bound", "Part", "lower_bound"]
