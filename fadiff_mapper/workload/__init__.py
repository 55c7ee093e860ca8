"""A network: a graph of layers (Timeloop problems) and of the operators between them, which cost no MACs here.

    network = load_network("bundled:networks/resnet18")
    for entry in network.distinct():     # each distinct problem once, with the nodes that are it
        ...
    for link in network.links():         # layer to layer: how tiles correspond, and what stands against fusing
        ...

Importing this package needs neither torch nor onnx; what reads networks is in `frontends`.
"""

from fadiff_mapper.workload.axis_algebra import AxisPiece, Obstacle
from fadiff_mapper.workload.graph import Distinct, NotUnderstood, Totals, Workload, build_workload
from fadiff_mapper.workload.node import Node, Window
from fadiff_mapper.workload.operator import Operator, make_operator
from fadiff_mapper.workload.producer_consumer import AxisMap, Link

__all__ = [
           "AxisMap",
           "AxisPiece",
           "Distinct",
           "Link",
           "Node",
           "NotUnderstood",
           "Obstacle",
           "Operator",
           "Totals",
           "Window",
           "Workload",
           "build_workload",
           "make_operator",
]
