"""The cost of tensors that joins read besides the one that flows on, such as residual operands.

Problem. Operators account for one operand of a sum; the other one is read again, from the outermost level, where its
producer wrote it. Timeloop has no such nodes; in LoopTree and in a problem of its own, a sum would read both operands.

Method. Every word is read once from the outermost level: at its energy per word, and at its bandwidth for the cycles,
which are added, since operators run one after the other. The same holds with fusion and without: a tensor with a
reader outside its group is written to the outermost level in any case (`FusedLink.written`). Where a group computes
halos again, it would read their part of the operand again; that is not counted. The sum itself is a point on its way,
and costs nothing.
"""

from __future__ import annotations

import math

from fadiff_mapper.model.energy_latency import UNLIMITED, word_energy
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.network.layers.edp_prices import OperatingPoint
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Workload
from fadiff_mapper.workload.joined_operands import joined_operands


def joined_reads(workload: Workload, spec: Spec) -> OperatingPoint:
    """Energy in pJ and whole cycles of all such reads of a network.

    Args:
        workload: The network.
        spec: Any of its layers on the design.
    """
    operands = joined_operands(workload.nodes)
    machine, outermost = prepare_layer(spec.arch, spec.problem, spec.tables).machine, spec.arch.levels[-1]
    width = min(float(limit[-1, 0]) for limit in (machine.read_bandwidth, machine.shared_bandwidth))
    energy = float(word_energy(machine).read[-1, 0])
    cycles = [math.ceil(operand.words / (width * outermost.instances)) for operand in operands] if width < UNLIMITED \
        else []
    return OperatingPoint(sum(operand.words for operand in operands) * energy, sum(cycles))
