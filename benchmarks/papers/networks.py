"""Networks and designs of FADiff's Table 1, and a network on a design as a question to every method."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from fadiff_mapper import Workload, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.prices import other_reads
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.workload import OperatingPoint

NETWORKS = ("gpt3_6b7_block", "vgg19", "vgg16", "mobilenet_v1", "resnet18")
"""In the order of FADiff's Table 1."""

DESIGNS = ("gemmini_large", "gemmini_small")


@dataclass(frozen=True)
class NetworkQuestion:
    """A network on a design.

    Attributes:
        workload: The network.
        specs: Its distinct problems on the design.
        times: Runs of each.
        joined: Energy and cycles of tensors that sums read besides, the same for every mapping.
    """

    workload: Workload
    specs: tuple[Spec, ...]
    times: tuple[int, ...]
    joined: OperatingPoint

    def tasks(self) -> list[MappingTask]:
        """The distinct problems, prepared for a search."""
        return [mapping_task(spec) for spec in self.specs]


@lru_cache(maxsize=1)
def network_question(network: str, design: str) -> NetworkQuestion:
    """Reads a bundled network and design."""
    workload = load_network(f"bundled:networks/{network}")
    specs = specs_of(workload, bundled_files.find(f"arch/{design}"))
    return NetworkQuestion(workload, specs, tuple(entry.times for entry in workload.distinct()),
                           other_reads(workload, specs[0]))
