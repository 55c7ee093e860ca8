"""The search of single layers: gradient descent on the relaxed model, then refinement on the exact one."""
