"""The DNN as a graph: operators (Timeloop problems), the nodes between them, and the links along which layers can fuse.

    network = load_network("bundled:networks/resnet18")
    for entry in network.distinct():     # each distinct problem once, with its nodes
        ...
    for link in network.links():         # operator to operator: correspondence of tiles, and obstacles to fusion
        ...

Words, each for one thing:

    node        any vertex of the graph (`Node`); its output is the tensor that carries its name
    operator    a node with multiply-accumulates, and the problem that it poses (`Operator`, in `Node.layer`)
    layer       another word for an operator, used where it is mapped onto hardware: `Node.layer`, `Workload.layers`
    tensor      a value that flows between nodes, with a shape in the order of axes that frameworks use
    data space  a tensor of one problem, as Timeloop names it: "Inputs", "Weights", "Outputs"
    operand     a data space that the operator reads; `Node.operands` names the one that each input tensor becomes
    axis        an axis of a tensor; a data space has ranks, a problem dimensions (`tensor_axes` ties them together)
    link        the relation between an operator and the next one that reads its output (`Link`)

ATen and ONNX call every vertex an operator; such operators are named with their framework here ("an ONNX operator").

Importing this package needs neither torch nor onnx; only the readers of their models do.
"""

from fadiff_mapper.workload.coverage import Coverage, coverage
from fadiff_mapper.workload.graph import Distinct, Folded, NotUnderstood, OperatingPoint, Workload, build_workload
from fadiff_mapper.workload.node import Node, Window
from fadiff_mapper.workload.operator import Operator, make_operator
from fadiff_mapper.workload.producer_consumer import AxisMap, Link
from fadiff_mapper.workload.tensor_axes import AxisPiece
from fadiff_mapper.workload.tensor_routes import Obstacle

__all__ = [
    "AxisMap", "AxisPiece", "Coverage", "Distinct", "Folded", "Link", "Node", "NotUnderstood", "Obstacle",
    "OperatingPoint", "Operator", "Window", "Workload", "build_workload", "coverage", "make_operator",
]
