"""The cost of tensors that joins read besides the one that flows on, such as residual operands.

Problem. Operators account for one operand of a sum; the other one is read again, from the outermost level, where its
producer wrote it. Timeloop has no such nodes; in LoopTree and in a problem of its own, a sum would read both operands.

Method. Every word is read once from the outermost level: at its energy per word, and at its bandwidth for the cycles,
which are added, since operators run one after the other. The same holds with fusion and without, unless a group reads
the operand on the chip (`tilings.kept_residuals`), which counts the reads of its own steps. Where a group computes
halos again, it would read their part of any other operand again; that is not counted. The sum itself is a point on its
way, and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.model.machine import UNLIMITED, word_energy
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, summed
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Workload
from fadiff_mapper.workload.joined_operands import joined_operands


@dataclass(frozen=True)
class WordCosts:
    """Energies and cycles of words on a design.

    Attributes:
        read: pJ of a word read, for every level, innermost first.
        written: pJ of a word written at the outermost level.
        width: Words that can be read from the outermost level in a cycle.
    """

    read: tuple[float, ...]
    written: float
    width: float

    def joined(self, words: int) -> OperatingPoint:
        """Energy in pJ and whole cycles of reading an operand from the outermost level.

        Args:
            words: Its words.
        """
        return OperatingPoint(words * self.read[-1], math.ceil(words / self.width) if self.width < UNLIMITED else 0)


def word_costs(spec: Spec) -> WordCosts:
    """Reads the costs of words off a design.

    Args:
        spec: Any layer on the design.
    """
    machine, outermost = prepare_layer(spec.arch, spec.problem, spec.tables).machine, spec.arch.levels[-1]
    width = min(float(limit[-1, 0]) for limit in (machine.read_bandwidth, machine.shared_bandwidth))
    energy = word_energy(machine)
    return WordCosts(tuple(map(float, energy.read[:, 0])), float(energy.update[-1, 0]), width * outermost.instances)


def joined_reads(workload: Workload, spec: Spec) -> OperatingPoint:
    """Energy in pJ and whole cycles of all such reads of a network.

    Args:
        workload: The network.
        spec: Any of its layers on the design.
    """
    costs = word_costs(spec)
    return summed([costs.joined(operand.words) for operand in joined_operands(workload.nodes)])
