"""Fused groups on Timeloop's architectures: shared tile loops over exact mappings.

In the order of use: `fused_group` (the plan), `tile_steps` (the points of every step), `stored_words` (room for tensors
that stay), `step_evaluation` (each tile evaluated once), `live_words` (peak occupancy), `group_legality` (violations),
`fused_counts` (FADiff eqs. 13 to 15 at sigma = 0 or 1), `group_cost` (eqs. 16 to 19).
"""
