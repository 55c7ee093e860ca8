"""Mappings with the answers of the real `timeloop-model`, as `python -m validation.record` wrote them down."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.native.mapping import read_mapping
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.located import with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.evaluate import Evaluation
from fadiff_mapper.model.legality import rejection, violations
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.stats import stats_of
from fadiff_mapper.timeloop.verify import compared, differences

Json = dict[str, Any]

RECORDED = Path(__file__).parent / "data" / "timeloop_cases.jsonl.gz"

NO_REUSE = RECORDED.with_name("timeloop_no_reuse.jsonl.gz")

RESIDUALS = RECORDED.with_name("timeloop_residuals.jsonl.gz")

SHARED = Path(__file__).parents[2] / "shared" / "timeloop_reference" / "cases.jsonl.gz"

OWN_DESIGNS = ("hyphens_and_wires", "list_format", "one_buffer", "power_gated", "priced_network", "sparse_tables",
               "systolic")

SHARED_DESIGNS = ("eyeriss_like", "flat_rs", "gemmini_large", "gemmini_small", "plain_gemmini", "simba_like",
                  "simple_os", "simple_ws", "tiny2", "tiny3_noc")


@cache
def recording(path: Path) -> dict[str, dict[str, Json]]:
    """kind -> id -> line."""
    found: dict[str, dict[str, Json]] = defaultdict(dict)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            found[line["kind"]][line.get("id", "")] = line
    return found


def document(path: Path, arch: str, problem: str) -> Json:
    """The input of a case without its mapping."""
    line = recording(path)["arch"][arch]
    tables = {"ERT": line["ert"]} if line["ert"] else {}
    return {line["key"]: line["native"], "problem": recording(path)["problem"][problem]["problem"], **tables}


def cases(path: Path, arch: str) -> dict[tuple[str, str], list[Json]]:
    """(problem id, switches) -> the cases of one architecture that make one batch: they switch the same reuse off."""
    found: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for case in recording(path)["case"].values():
        if case["arch"] == arch:
            off = sorted((one["target"], one["type"], one["no_reuse"]) for one in case["mapping"] if "no_reuse" in one)
            found[case["problem"], str(off)].append(case)
    return found


def read(case: Json, spec: Spec) -> Mapping | str:
    """The mapping, or why it cannot be one."""
    try:
        return read_mapping(with_places(case["mapping"], Where("case")), Where("case"), spec.arch, spec.problem)
    except SpecError as error:
        return str(error)


def mistakes(case: Json, layer: PreparedLayer, found: Evaluation, row: int) -> Iterator[str]:
    """Differences between one row of an evaluation and the recorded answer: rejection, counts, cycles, energies."""
    if not found.legal[row]:
        said = str(rejection(violations(found.checks, row)))
        if case["status"] == "ok" or said not in case["error"]:
            yield f"rejected: {said} instead of {case.get('error', 'accepted')}"
    elif case["status"] != "ok":
        yield f"accepted instead of {case['error']}"
    else:
        yield from differences(case["result"], compared(stats_of(layer, found, row)))
