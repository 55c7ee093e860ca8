"""What the real `timeloop-model` refuses and could be read: an error for a strict reader, a warning for a lenient one.

Each document is the smallest that `timeloop-model` of commit 4cf6d4c ends on, tried on this design as well.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_lenient import NATIVE, OLD_LISTS, meaning, v04, written
from v04_designs import PROBLEM, buffer

from fadiff_mapper import SpecError, load

KEEP = "- {target: Buffer, type: datatype, bypass: [I]}\nmapper:"

REFUSED = {  # text that Timeloop reads, the same as it refuses it, its line, message
    "type of constraints": (KEEP, KEEP.replace("datatype", "dataspace"), 23,
                  'timeloop-model refuses the type "dataspace" in a mapping'),
    "bypassing": (KEEP, KEEP.replace("datatype", "bypassing"), 23,
                  'timeloop-model refuses the type "bypassing" in a mapping'),
    "three ports": ("entries: 64", "entries: 64, num_ports: 3", 7, 'timeloop-model refuses the num_ports of "Buffer"'),
    "ports that are no whole number": ("entries: 64", "entries: 64, n_ports: 2.0", 7,
                                       'timeloop-model refuses the n_ports of "Buffer"'),
    "bound as a float": ("{P: 4, R", "{P: 4.0, R", 18, "timeloop-model refuses 4.0 as a whole number"),
    "bound as text": ("{P: 4, R", "{P: '4.0', R", 18, "timeloop-model refuses 4.0 as a whole number"),
    "coefficient as a float": ("K: 4}", "K: 4, Hstride: 1.0}", 18, "timeloop-model refuses 1.0 as a whole number"),
    "default as a float": ("default: 1}", "default: 1.0}", 13, "timeloop-model refuses 1.0 as a whole number"),
    "coefficient without a default": ("name: Hstride, default: 1", "name: Hstride", 13,
                                      'timeloop-model refuses the coefficient "Hstride" without a default'),
    "size as a float": ("entries: 64", "entries: 64.0", 7, "timeloop-model refuses 64.0 as a whole number"),
    "size with an underscore": ("entries: 64", "entries: '6_4'", 7, "timeloop-model refuses 6_4 as a whole number"),
    "width of words as a float": ("entries: 64, word_bits: 16", "entries: 64, word_bits: 16.0", 7,
                                  "timeloop-model refuses 16.0 as a whole number"),
    "mesh as a float": ("class: mac, attributes: {", "class: mac, attributes: {meshX: 4.0, ", 8,
                        "timeloop-model refuses 4.0 as a whole number"),
    "split as a float": ("permutation: KPR}", "permutation: KPR, split: 3.0}", 22,
                         "timeloop-model refuses 3.0 as a whole number"),
    "least utilization of nothing": ("read_bandwidth: 2", "read_bandwidth: 2, min_utilization: 0.5", 6,
                                     'timeloop-model refuses the min_utilization of "DRAM", which has no size'),
    "scale of an unknown data space": (
        "entries: 64", "entries: 64, per_dataspace_bandwidth_consumption_scale: {Q: 2}", 7,
        'timeloop-model refuses a bandwidth scale of "Q", which is no data space'),
}


@pytest.mark.parametrize(("right", "wrong", "line", "message"), REFUSED.values(), ids=REFUSED)
def test_what_timeloop_refuses_is_an_error_or_a_warning(
        tmp_path: Path, right: str, wrong: str, line: int, message: str) -> None:
    text = NATIVE.replace("mapper:", KEEP) if right == KEEP else NATIVE
    plain = load(written(tmp_path, text=text))
    file = written(tmp_path, right, wrong, text)
    with pytest.raises(SpecError, match=rf"design\.yaml:{line}: .*{re.escape(message)}.*; accepted: "):
        load(file)
    lenient = load(file, strict=False)
    warning, = lenient.warnings
    assert warning.startswith(f"{file}:{line}: ") and message in warning
    assert meaning(lenient)["mapping"] == meaning(plain)["mapping"]
    assert meaning(lenient)["problem"] == meaning(plain)["problem"]


@pytest.mark.parametrize("text", [
    NATIVE.replace("R, K]", "R, K, Batch]").replace("K: 4}", "K: 4, Batch: 1}"),
    v04(buffer(), problem=PROBLEM.replace("N, K]\n", "N, K, Batch]\n").replace("K: 24}", "K: 24, Batch: 1}"))],
    ids=["native", "v0.4"])
def test_dimensions_have_one_letter(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text=text)
    with pytest.raises(SpecError, match="refuses dimensions of several letters: Batch; accepted: names of one letter"):
        load(file)
    lenient = load(file, strict=False)
    warning, = lenient.warnings
    assert "dimensions of several letters: Batch" in warning and lenient.problem.bounds["Batch"] == 1


@pytest.mark.parametrize("ports", ["num_ports: 1", "num_ports: 2", "n_ports: '2'", "num-ports: 2"])
def test_one_or_two_ports_are_read(tmp_path: Path, ports: str) -> None:
    assert load(written(tmp_path, "entries: 64", f"entries: 64, {ports}")).warnings == ()


@pytest.mark.parametrize("bound", ["4", "'4'", "+4", "0x4"])
def test_bounds_may_be_whole_numbers_as_text(tmp_path: Path, bound: str) -> None:
    assert load(written(tmp_path, "{P: 4", f"{{P: {bound}")).problem.bounds["P"] == 4


def test_scales_of_known_data_spaces_are_read(tmp_path: Path) -> None:
    scaled = "entries: 64, per_dataspace_bandwidth_consumption_scale: {W: 2}"
    assert load(written(tmp_path, "entries: 64", scaled)).arch.levels[0].bandwidth_scale == {"W": 2}


# In the v0.4 dialect the front end hands all of these on to `timeloop-model`, but for `type: dataspace`.

V04 = {
    "three ports": (buffer(attributes="width: 8, datawidth: 8, depth: 16, num_ports: 3"), PROBLEM, "num_ports"),
    "scale of an unknown data space": (
        buffer(attributes="width: 8, datawidth: 8, depth: 16, per_dataspace_bandwidth_consumption_scale: {Q: 2}"),
        PROBLEM, 'bandwidth scale of "Q"'),
    "bound as a float": (buffer(), PROBLEM.replace("M: 64", "M: 64.0"), "64.0 as a whole number"),
    "bound by division": (buffer(), PROBLEM.replace("M: 64", "M: 128/2"), "64.0 as a whole number"),
    "coefficient without a default": (
        buffer(), PROBLEM.replace("    data_spaces", "    coefficients: [{name: S}]\n    data_spaces"),
        'coefficient "S" without a default'),
    "datawidth of a container": (
        "!Container {name: Chip, attributes: {datawidth: 8}}\n  - " + buffer(attributes="width: 8, depth: 16"), PROBLEM,
        'Timeloop\'s front end refuses "Buf", which has no datawidth of its own'),
    "width of a container": (
        "!Container {name: Chip, attributes: {width: 8}}\n  - " + buffer(attributes="datawidth: 8, depth: 16"), PROBLEM,
        'Timeloop\'s front end refuses "Buf", which has no width of its own'),
}


@pytest.mark.parametrize(("nodes", "problem", "message"), V04.values(), ids=V04)
def test_so_it_is_in_the_other_dialect(tmp_path: Path, nodes: str, problem: str, message: str) -> None:
    file = written(tmp_path, text=v04(nodes, problem=problem))
    with pytest.raises(SpecError, match=re.escape(message)):
        load(file)
    lenient = load(file, strict=False)
    warning, = lenient.warnings
    assert message in warning
    buf = lenient.arch.levels[0]
    assert (buf.size, buf.word_bits, lenient.problem.bounds["M"]) == (16, 8, 64)


def test_a_mapping_of_the_other_dialect_says_dataspace(tmp_path: Path) -> None:
    mapping = """mapping:
- {target: DRAM, type: temporal, factors: [M=64, N=16, K=24], permutation: [M, N, K]}
- {target: Buf, type: dataspace, bypass: [A]}"""
    spec = load(written(tmp_path, text=v04(buffer(), sections=mapping)))
    assert spec.mapping is not None and "A" not in spec.mapping.levels[0].keep


def test_a_datawidth_of_its_own_beside_a_containers_is_read(tmp_path: Path) -> None:
    nodes = "!Container {name: Chip, attributes: {datawidth: 4}}\n  - " + buffer()
    assert load(written(tmp_path, text=v04(nodes))).arch.levels[0].word_bits == 8


@pytest.mark.parametrize(("text", "size"), [("'0x40'", 64), ("'0100'", 64), ("'+64'", 64), ("'64 '", 64)])
def test_sizes_are_read_in_the_bases_of_c(tmp_path: Path, text: str, size: int) -> None:
    assert load(written(tmp_path, "entries: 64", f"entries: {text}")).arch.levels[0].size == size


def test_energies_of_the_arithmetic_have_no_fraction(tmp_path: Path) -> None:
    for strict in (True, False):
        with pytest.raises(SpecError, match=r"design.yaml:8: .*energy: found 1.5; accepted: a whole number >= 0"):
            load(written(tmp_path, "class: mac, attributes: {", "class: mac, attributes: {energy: 1.5, "),
                 strict=strict)


def test_a_dram_has_no_clusters(tmp_path: Path) -> None:
    file = written(tmp_path, "word_bits: 16, read_bandwidth: 2", "word_bits: 16, instances: 2, cluster_size: 2",
                   NATIVE.replace("MAC[0..3]", "MAC[0..7]").replace("entries: 64", "entries: 64, instances: 2"))
    with pytest.raises(SpecError, match=r'design.yaml:6: .*timeloop-model refuses "DRAM", a DRAM in clusters of 2'):
        load(file)
    assert "a DRAM in clusters of 2" in load(file, strict=False).warnings[0]


def test_components_of_a_list_say_how_many_they_are(tmp_path: Path) -> None:
    """Timeloop takes 0 and divides by it."""
    file = written(tmp_path, "technology: DRAM, instances: 1,", "technology: DRAM,", OLD_LISTS)
    with pytest.raises(SpecError, match=r"design.yaml:5: .*of a list without instances; accepted: instances"):
        load(file)
    assert load(file, strict=False).arch.levels[-1].instances == 1
