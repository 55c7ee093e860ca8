"""Fused groups: layers that hand tiles of tensors to one another on the chip.

`fused_group` (a plan of shared tile loops over exact mappings), `tile_steps` (points and words of every step),
`group_cost` (each tile evaluated once, and the sums), `group_legality`.
"""

from fadiff_mapper.fusion.fused_group import (
    FusedGroup,
    FusedLayer,
    FusedLink,
    Hardware,
    SecondRead,
    Stay,
    TileLoop,
    hardware_of,
)
from fadiff_mapper.fusion.group_cost import FusedCost, LayerCost, group_cost
from fadiff_mapper.fusion.group_legality import evaluate_group, group_violations
from fadiff_mapper.fusion.tile_steps import layer_steps, step_classes

__all__ = ["FusedCost", "FusedGroup", "FusedLayer", "FusedLink", "Hardware", "LayerCost", "SecondRead", "Stay",
           "TileLoop", "evaluate_group", "group_cost", "group_violations", "hardware_of", "layer_steps", "step_classes"]
