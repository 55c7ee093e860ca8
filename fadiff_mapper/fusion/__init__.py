"""Fused layers: groups of layers that hand tiles of tensors to one another on the chip.

Two models that share no code, so that each can check the other:

    groups/     our own plans (`FusedGroup`) on Timeloop's architectures: shared tile loops over exact mappings, counted
                once per class of equal steps; `evaluate_group`
    looptree/   LoopTree's model of a mapping in its own input format, operation by operation; `evaluate_fused`
"""

from fadiff_mapper.fusion.groups.fused_group import (
    FusedGroup,
    FusedLayer,
    FusedLink,
    Hardware,
    SecondRead,
    Stay,
    TileLoop,
)
from fadiff_mapper.fusion.groups.group_cost import (
    FusedCost,
    LayerCost,
    evaluate_group,
    evaluate_groups,
    group_cost,
    single,
)
from fadiff_mapper.fusion.groups.group_legality import group_violations
from fadiff_mapper.fusion.groups.tile_steps import layer_steps, step_classes

__all__ = [
    "FusedCost",
    "FusedGroup",
    "FusedLayer",
    "FusedLink",
    "Hardware",
    "LayerCost",
    "SecondRead",
    "Stay",
    "TileLoop",
    "evaluate_group",
    "evaluate_groups",
    "group_cost",
    "group_violations",
    "layer_steps",
    "single",
    "step_classes",
]
