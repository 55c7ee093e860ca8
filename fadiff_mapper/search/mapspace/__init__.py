"""The map space: the mappings that architecture, problem and constraints leave open, and why there may be none.

Factors are divisors of their dimension (Timeloop's "uber" map space, only perfect factors); `build.size` counts the
space as `timeloop-mapper` does.
"""
