"""Compares an evaluation with the numbers of the real `timeloop-model`."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load, merged_input
from fadiff_mapper.inputs.spec import keys
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.model.evaluate import evaluate_one
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.timeloop.find_programs import MODEL, find_real, identity
from fadiff_mapper.timeloop.run_model import run_text

# Counts must be equal. Energies agree to 1e-9, as sums may be taken in another order. Numbers that Timeloop prints with
# two decimals are compared with the slack that this leaves.

TWO_DECIMALS = 0.00501  # largest distance of a number from its two-decimal print, with a margin for rounded halves
PRINTED = ("ingresses", "link_transfers", "spatial_reductions", "leakage_energy_pj", "energy_uj", "utilization_percent")
"""Numbers known with two decimals only."""
WITH_LEAKAGE = ("energy_pj_total", "energy_pj")  # energies that contain leakages, one of two decimals for each level


def compared(stats: Stats) -> dict[str, Any]:
    """The statistics in the form of Timeloop's answer, with energy and utilization of the summary not rounded."""
    exact = {"energy_uj": stats.energy_pj / 1e6, "utilization_percent": stats.utilization * 100}
    return stats.to_dict() | {"printed": stats.printed() | exact}


def differences(want: Any, ours: Any, name: str = "", path: str = "") -> Iterator[str]:
    """One line for every number of Timeloop's answer from which our evaluation differs, recursively.

    Whole numbers must be equal, other numbers to 1e-9, two-decimal prints to two decimals. Levels, networks and data
    spaces must be the same. Numbers of `ours` (see `compared`) that `want` lacks are ignored; `path` names the part.
    """
    if isinstance(ours, dict) and not isinstance(want, dict):
        # Densities without optimizations change no number, and Timeloop prints one number for all kinds.
        ours = ours["actual"]
    if isinstance(want, dict):
        if name == "dataspaces" and want.keys() != ours.keys():
            yield f"{path}: {sorted(ours)} instead of {sorted(want)}"
        for key in (key for key in want if key in ours):
            yield from differences(want[key], ours[key], key, f"{path}.{key}" if path else key)
        if name != "dataspaces":
            yield from (f"{path}.{key}: missing" for key in want.keys() - ours.keys())
    elif isinstance(want, list):
        if len(want) != len(ours):
            yield f"{path}: {ours} instead of {want}"
        for i, (item, own) in enumerate(zip(want, ours, strict=False)):
            label = item.get("name", i) if isinstance(item, dict) else i
            yield from differences(item, own, name, f"{path}[{label}]")
    else:
        slack = TWO_DECIMALS if name in PRINTED else 10 * TWO_DECIMALS if name in WITH_LEAKAGE else 1e-12
        exact = isinstance(want, str) or (isinstance(want, int) and name not in PRINTED)
        if want != ours if exact else not math.isclose(want, ours, rel_tol=1e-9, abs_tol=slack):
            yield f"{path}: {ours} instead of {want}"


def numbers(answer: Any) -> int:
    """The number of numbers in an answer."""
    if isinstance(answer, dict | list):
        return sum(numbers(item) for item in (answer.values() if isinstance(answer, dict) else answer))
    return not isinstance(answer, str)


TIMEOUT = 600.0  # seconds for one evaluation by Timeloop, which takes minutes where windows slide over long loops


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison with the real `timeloop-model`."""

    program: Path  # the program that ran
    identity: str  # a name for its build
    numbers: int  # count of its numbers; 0 where it rejected the mapping, failed, hung or left an incomplete file
    differences: tuple[str, ...]  # a line for each number that differs, or the reason why Timeloop gave no numbers
    limit: str = ""  # numbers that Timeloop cannot give, in words; "" where there are none

    @property
    def equal(self) -> bool:
        """Whether every number is the same."""
        return not self.differences


def real_model(search_path: str | None = None) -> Path:
    """The real `timeloop-model` in `search_path`, written as PATH is; None: PATH. FadiffError where there is none."""
    program = find_real(MODEL, search_path)
    if program is None:
        raise FadiffError(f"nothing to verify against: no {MODEL} on the PATH (launchers of fadiff-mapper do not "
                          "count); install Timeloop, or run without --verify")
    return program


def verify(spec: Spec, mapping: Mapping, stats: Stats, program: Path | None = None,
           timeout: float = TIMEOUT) -> Verdict:
    """Runs the real `timeloop-model` on a mapping and compares every number of its answer with ours.

    Where tensors have bits of their own, it runs on the `twin` of the design, whose numbers ours must equal, too.

    Args:
        spec: The design and the problem.
        mapping: The mapping; the program gets both as in `fadiff.input.yaml`.
        stats: Our numbers of it, see `evaluate`.
        program: The path of `timeloop-model`; None: the one on the PATH.
        timeout: Seconds after which the program is ended.

    Raises:
        FadiffError: There is no such program on the PATH.
    """
    program = program or real_model()
    if any(space.bits for space in spec.problem.dataspaces):
        other, priced = twin(spec, mapping)
        found, its = verify(other, mapping, own := evaluate_mapping(other, mapping), program, timeout), own.to_dict()
        shown = {name: its[name] for name in ("computes", *(("cycles", "energy_pj") if priced else ()))}
        shown["levels"] = [{"name": level["name"], "dataspaces": {
            name: {count: space[count] for count in ("reads", "fills", "updates")}
            for name, space in level["dataspaces"].items()}} for level in its["levels"]]
        return replace(found, differences=(*found.differences, *differences(shown, stats.to_dict())), limit="" if priced
                       else "cycles and energies are not compared: in Timeloop all tensors of a level have one width")
    try:
        with tempfile.TemporaryDirectory(prefix="fadiff-verify-") as folder:
            answer = run_text(dump(merged_input(spec, mapping)), spec.problem.dataspace_names(), Path(folder),
                              (str(program),), timeout=timeout)
    except FadiffError as error:
        return Verdict(program, identity(program), 0, (str(error),))
    if answer.result is None:
        return Verdict(program, identity(program), 0, (f"rejected: {answer.error}",))
    return Verdict(program, identity(program), numbers(answer.result),
                   tuple(differences(answer.result, compared(stats))))


SIZES = ("word_bits", "block_size", "cluster_size", "width", "entries", "depth", "memory_depth", "data_storage_depth",
         "sizeKB", "bandwidth", "read_bandwidth", "write_bandwidth", "shared_bandwidth", "addr_gen_energy",
         "min_utilization")
"""Attributes of a memory that depend on the width of its words."""


def twin(spec: Spec, mapping: Mapping) -> tuple[Spec, bool]:
    """A design without bits of tensors that has equal counts, and whether it has equal cycles and energies, too.

    It has if all tensors that a level keeps have one width, at every level: words of the level get this width. Else
    memories of the twin have room for anything, and only counts are equal.
    """
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, mapping, residuals=True)
    words = evaluation.counts.words
    assert words is not None
    shares, levels = [], spec.arch.levels
    for index, level in enumerate(levels):
        kept = {Fraction(int(words.stored[index, t, 0]), int(words.per[index, t, 0]))
                for t in np.flatnonzero(evaluation.held[index, :, 0])} or {Fraction(1)}
        wires = [one for one in layer.interconnects if one.level == index and one.priced]
        sent = {Fraction(int(words.transferred[index, t, 0]), int(words.per[index, t, 0]))
                for t in range(len(spec.problem.dataspaces)) if wires}
        share = kept.pop()
        even = share.numerator.bit_count() == share.denominator.bit_count() == 1  # so that bandwidths stay exact
        whole = (level.word_bits * share).denominator == (level.block_size / share).denominator == 1
        shares.append(share if even and whole and not kept and sent <= {share} else None)
    priced = None not in shares and not spec.arch.named_interconnects
    by_name = dict(zip(spec.arch.level_names(), zip(levels, shares if priced else [None] * len(shares), strict=True),
                       strict=True))

    def rewritten(node: Any) -> Any:
        if isinstance(node, list):
            return [rewritten(item) for item in node]
        if not isinstance(node, dict):
            return node
        level, share = by_name.get(str(node.get("name", "")).split("[")[0], (None, None))
        if level is None or "class" not in node:
            return {key: rewritten(item) for key, item in node.items()}
        gone = {other for name in SIZES for spelling in keys.MEMORY[name].spellings
                for other in (spelling, spelling.replace("_", "-"))}
        attributes = {key: value for key, value in node.get("attributes", {}).items() if key not in gone}
        times = share or Fraction(1)
        attributes |= {"word_bits": int(level.word_bits * times), "block_size": int(level.block_size / times),
                       "cluster_size": level.cluster_size, "addr_gen_energy": level.addr_gen_energy * float(times)}
        if level.size is not None:
            attributes["entries"] = ANYTHING if share is None else int(level.size / times)
        attributes |= {name: value / float(times) for name in ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
                       if (value := getattr(level, name)) is not None}
        own_wires = any(key.startswith("network") and key.endswith("bits") for key in attributes)
        for name in ("energy_per_hop", "router_energy", "energy-per-ingress", *(("wire_energy",) if own_wires else ())):
            for spelling in {name, name.replace("_", "-")} & attributes.keys():
                attributes[spelling] = float(attributes[spelling]) * float(times)
        return {**node, "attributes": attributes}

    sections = merged_input(replace(spec, sparse=None))
    problem = sections["problem"]
    instance = {key: value for key, value in problem["instance"].items() if key != "bits"}
    tree = {key: rewritten(sections[key]) for key in spec.arch.native}
    return load({**sections, **tree, "problem": {**problem, "instance": instance}}, energy="built-in",
                strict=False), priced


ANYTHING = 1 << 30  # words of a memory with room for anything


def verify_plan(plan: NetworkResult, program: Path) -> Iterator[tuple[str, Verdict]]:
    """Runs the real `timeloop-model` on all layers and tiles of a plan; yields the name ("NAME (tile)") and verdict."""
    for layer in plan.layers:
        yield layer.nodes[0], verify(layer.spec, layer.mapping, layer.stats, program)
    for tile in (tile for group in plan.groups for tile in group.tiles):
        yield f"{tile.node} (tile)", verify(tile.spec, tile.mapping, tile.stats, program)
