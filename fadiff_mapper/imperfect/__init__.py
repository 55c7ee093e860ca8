"""Mappings with residual factors (Timeloop's imperfect factors, Ruby): exact evaluation behind the dense counts."""
