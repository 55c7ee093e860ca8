"""The search of single layers: descent on the relaxed model, refinement on the exact one."""
