"""Bad input: one clear line that says where, what was found and what is accepted; exit code 2; nothing half-written."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fadiff_mapper import SpecError, load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.cli import main

Change = Callable[[dict[str, Any]], None]


def arch_text() -> str:
    return find("arch/gemmini_small").read_text(encoding="utf-8")


def design() -> dict[str, Any]:
    """A small native design with a problem, an ERT and a mapping, all of it right."""
    document: dict[str, Any] = yaml.safe_load("""
architecture:
  version: '0.3'
  subtree:
  - name: chip
    local:
    - {name: DRAM, class: DRAM, attributes: {word_bits: 16}}
    - {name: Buffer, class: SRAM, attributes: {depth: 64, width: 16, word_bits: 16, read_bandwidth: 4}}
    - {name: 'MAC[0..3]', class: mac, attributes: {word_bits: 16}}
problem:
  version: '0.4'
  shape:
    name: product
    dimensions: [M, K, N]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 8, K: 4, N: 4}
ERT:
  version: '0.4'
  tables:
  - {name: chip.DRAM, actions: [{name: read, energy: 100}, {name: write, energy: 100}, {name: update, energy: 100}]}
  - {name: chip.Buffer, actions: [{name: read, energy: 2}, {name: write, energy: 2}, {name: update, energy: 2}]}
  - {name: 'chip.MAC[0..3]', actions: [{name: compute, energy: 1}]}
mapping:
- {target: DRAM, type: temporal, factors: M=2 K=1 N=1, permutation: MKN}
- {target: Buffer, type: temporal, factors: M=1 K=4 N=4, permutation: KNM}
- {target: Buffer, type: spatial, factors: M=4 K=1 N=1, permutation: MKN}
""")
    return document


def test_the_design_itself_is_right(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump(design()))
    assert main(["check", str(path)]) == 0
    assert main(["evaluate", str(path)]) == 0


def local(document: dict[str, Any], index: int) -> dict[str, Any]:
    attributes: dict[str, Any] = document["architecture"]["subtree"][0]["local"][index]["attributes"]
    return attributes


def network(document: dict[str, Any], kind: str, **named: str) -> None:
    """Adds a network "noc", which the outermost level names."""
    entry = {"name": "noc", "class": kind, "attributes": {"word_bits": 8}}
    local(document, 0).update(named)
    document["architecture"]["subtree"][0]["local"].append(entry)


WRONG: dict[str, tuple[Change, list[str]]] = {
    "wrong type": (lambda d: local(d, 1).update(depth="deep"), ["local[1].attributes.depth", "'deep'"]),
    "negative size": (lambda d: local(d, 1).update(depth=-4), ["depth", "-4", ">= 0"]),
    "no size": (lambda d: local(d, 1).pop("depth"), ["Buffer", "no size", "depth"]),
    "misspelt attribute": (lambda d: local(d, 1).update(shared_bandwith=2), ["shared_bandwith", '"shared_bandwidth"']),
    "hyphen that Timeloop drops": (lambda d: local(d, 1).update({"write-bandwidth": 2}), ['"write_bandwidth"']),
    "zero bandwidth": (lambda d: local(d, 1).update(read_bandwidth=0), ["read_bandwidth", "> 0"]),
    "infinite bandwidth": (lambda d: local(d, 1).update(read_bandwidth=float("nan")), ["read_bandwidth"]),
    "unknown component key": (lambda d: d["architecture"]["subtree"][0]["local"][1].update(clas="x"), ['"class"']),
    "unknown section": (lambda d: d.update(maping=[]), ['unknown section "maping"', '"mapping"']),
    "no problem": (lambda d: d.pop("problem"), ["no problem section"]),
    "two architectures": (lambda d: d.update(arch=d["architecture"]), ["both"]),
    "unknown tensor": (lambda d: d["mapping"].append({"target": "Buffer", "type": "datatype", "keep": ["C"]}),
                       ['unknown data space "C"', "A, B, Z"]),
    "unknown level": (lambda d: d["mapping"][0].update(target="DRM"), ['unknown level "DRM"', '"DRAM"']),
    "unknown dimension": (lambda d: d["mapping"][0].update(factors="M=2 Q=1"), ['"Q"', "M, K, N"]),
    "wrong product": (lambda d: d["mapping"][0].update(factors="M=4"),
                      ["product of all factors of dimension M is 16", "8"]),
    "residual above its factor": (lambda d: d["mapping"][0].update(factors="M=3,4"), ["M=3,4", "from 1 to the factor"]),
    "blank before a residual": (lambda d: d["mapping"][0].update(factors="M=3, 2"), ["blank", '"M=3,2"']),
    "residuals of too few points": (lambda d: d["mapping"][0].update(factors="M=3,1"), ["product of all factors"]),
    "skew": (lambda d: d["mapping"].append({"target": "Buffer", "type": "skew"}), ["skew", "not supported"]),
    "spatial without fan-out": (lambda d: d["mapping"][2].update(target="DRAM"), ["no fan-out", "Buffer"]),
    "stride under a wrong name": (lambda d: d["problem"]["instance"].update(HStride=2), ["HStride", "neither"]),
    "dimension without bound": (lambda d: d["problem"]["instance"].pop("N"), ['"N" has no bound']),
    "bound zero": (lambda d: d["problem"]["instance"].update(M=0), ["instance.M", ">= 1"]),
    "projection on nothing": (lambda d: d["problem"]["shape"]["data_spaces"][0].update(projection=[[["X"]]]), ['"X"']),
    "empty projection": (lambda d: d["problem"]["shape"]["data_spaces"][0].update(projection=[]),
                         ["data_spaces[0].projection", "an empty projection", "at least one"]),
    "empty rank": (lambda d: d["problem"]["shape"]["data_spaces"][0].update(projection=[[["M"]], []]),
                   ["an empty rank"]),
    "too many operations": (lambda d: d["problem"]["instance"].update(M=10 ** 15, K=1000), ["2^53"]),
    "negative energy": (lambda d: d["ERT"]["tables"][1]["actions"][0].update(energy=-1), ["energy", ">= 0"]),
    "overflowing energy": (lambda d: d["ERT"]["tables"][1]["actions"][0].update(energy=1e308), ["energy", "at most"]),
    "bandwidth of nearly nothing": (lambda d: local(d, 1).update(read_bandwidth=1e-300), ["read_bandwidth", "1e-30"]),
    "range of a name without end": (
        lambda d: d["architecture"]["subtree"][0]["local"][1].update(name=f"Buffer[0..{'9' * 5000}]"),
        ["name", "1e+30"]),
    "many levels": (lambda d: d["architecture"]["subtree"][0]["local"].extend(
        {"name": f"L{i}", "class": "SRAM", "attributes": {"depth": 1, "width": 8, "word_bits": 8}}
        for i in range(70)), ["storage levels", "at most 64"]),
    "many dimensions": (lambda d: d["problem"]["shape"]["dimensions"].extend(f"D{i}" for i in range(5000)),
                        ["dimensions", "at most 64"]),
    "a name that steers terminals": (
        lambda d: d["architecture"]["subtree"][0]["local"][1].update(name="Buf\x1b[31m"), ["'\\x1b'", "printable"]),
    "unknown keys without end": (lambda d: d["architecture"]["subtree"][0]["local"][1].update(
        dict.fromkeys((f"x{i}" for i in range(300)), 1)), ["251 more of this sort"]),
    "no output": (lambda d: d["problem"]["shape"]["data_spaces"][2].pop("read_write"), ["read_write", "exactly one"]),
    "sparse optimizations": (lambda d: d.update(sparse_optimizations={"targets": [1]}),
                             ["sparse_optimizations.targets[0]", "a mapping"]),
    "layout": (lambda d: d.update(layout=[{"target": "DRAM"}]), ["layout", "not"]),
    "ERT lacks an action": (lambda d: d["ERT"]["tables"][1]["actions"].pop(0), ["Buffer", "read"]),
    "ERT lacks a component": (lambda d: d["ERT"]["tables"].pop(2), ["MAC", "compute"]),
    "ERT without numbers": (lambda d: d["ERT"]["tables"][1]["actions"][0].update(energy="lots"), ["energy", "'lots'"]),
    "empty ERT": (lambda d: d["ERT"].update(tables=[]), ["no table"]),
    "constraint on nothing": (lambda d: d.update(mapspace_constraints={"targets": [
        {"target": "Bufer", "type": "temporal", "factors": "M=1"}]}), ["Bufer", '"Buffer"']),
    "constraint without effect": (lambda d: d.update(mapspace_constraints={"targets": [
        {"target": "Buffer", "type": "temporal", "factor": "M=1"}]}), ['"factor"', '"factors"']),
    "no reuse of nothing": (lambda d: d["mapping"][1].update(no_reuse=["AA"]), ["no_reuse", '"AA"', "Z"]),
    "no reuse, said twice": (lambda d: d["mapping"][1].update(no_reuse=["A"], no_temporal_reuse=["B"]),
                             ["no_temporal_reuse", "both", "one of them"]),
    "a switch that mappings lack": (lambda d: d["mapping"][2].update(no_multicast_no_reduction=["A"]),
                                    ["no_multicast_no_reduction", "not supported", "no_reuse"]),
    "links of nothing": (lambda d: d["mapping"][2].update(no_link_transfer=["AA"]), ["no_link_transfer", '"AA"', "Z"]),
    "a word width for each data space": (lambda d: local(d, 1).update(word_bits={"A": 8}),
                                         ["word_bits", "all data spaces of a level the same word width"]),
    "unknown metric": (lambda d: d.update(mapper={"optimization_metrics": ["speed"]}), ["speed", "edp"]),
    "unknown mapper key": (lambda d: d.update(mapper={"time_out": 3}), ["time_out", '"timeout"']),
    "a network of no class": (lambda d: network(d, "My_XY_NoC"), ["class", "My_XY_NoC", "Timeloop refuses", "XY_NoC"]),
    "a network that the inner level lacks": (lambda d: network(d, "Legacy", network_read="noc"),
                                             ["network_read: noc", "network_fill: none", "the same network at both"]),
    "a network that does not exist": (
        lambda d: (network(d, "Legacy", network_read="nic"), local(d, 1).update(network_fill="nic")),
        ['no network "nic"', "accepted: noc"]),
    "a network in two places": (
        lambda d: (network(d, "Legacy", network_read="noc"), local(d, 1).update(network_fill="noc", network_read="noc"),
                   local(d, 2).update(network_operand="noc")), ["below two levels", "a network for each"]),
    "a tree of operands": (
        lambda d: (network(d, "ReductionTree", network_read="noc"), local(d, 1).update(network_fill="noc")),
        ["reduction tree", "inwards", "network_update"]),
    "a multicast without an action": (
        lambda d: (network(d, "SimpleMulticast", network_read="noc"), local(d, 1).update(network_fill="noc")),
        ["action_name", "ERT"]),
    "distributed multicast": (lambda d: local(d, 1).update(network_type="M:N"), ["M:N", "not supported", "1:N"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_document_is_one_clear_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, expected = WRONG[case]
    document = copy.deepcopy(design())
    change(document)
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(document))
    out = tmp_path / "out"
    assert main(["map", str(path), "-o", str(out), "--quiet"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and "Traceback" not in message
    assert all(part in message for part in [*expected, "spec.yaml"]), message
    assert not out.exists()


def test_rejected_by_the_hardware(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = design()
    local(document, 1)["depth"] = 8
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(document))
    assert main(["evaluate", str(path)]) == 2
    expected = "error: couldn't map level Buffer: mapped tile size 48 exceeds buffer capacity 8\n"
    assert capsys.readouterr().err == expected


TEXTS: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "empty"),
    "yaml error": (b"architecture: [1, 2\nproblem: {", "bad.yaml:"),
    "tab": (b"architecture:\n\tnodes: []\n", "bad.yaml:2"),
    "not text": (b"\x00\xff\xfe", "bad.yaml"),
    "alias bomb": (b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 10)) for i in range(8)), "alias"),
    "endless template": (b"architecture: {{ range(10**12) | list | length }}\n", "bad.yaml"),
    "nested endless template": (b"a:\n{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}\n",
                                "bad.yaml"),
    "template that reaches out": (b"a: {{ ''.__class__.__mro__ }}\n", "bad.yaml"),
    "tag that would run code": (b"a: !!python/object/apply:os.system ['true']\n", "python"),
    "10 MB": (b"# " + b"x" * 10_000_000 + b"\narchitecture: 1\n", "4 MiB"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_file_that_is_no_spec(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, expected = TEXTS[case]
    path = tmp_path / "bad.yaml"
    path.write_bytes(text)
    assert main(["check", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and expected in message and "Traceback" not in message


def test_an_input_without_a_problem_names_the_sections_that_are_there(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rest, found in ("problem: {}", "architecture"), ("problm: {version: 0.4}", "architecture, problm"):
        (tmp_path / "rest.yaml").write_text(rest)
        assert main(["check", "bundled:arch/gemmini_small", str(tmp_path / "rest.yaml")]) == 2
        assert f"the input has no problem section (found: {found}); accepted: architecture: and problem:" in (
            capsys.readouterr().err)


def test_missing_file_and_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.yaml")]) == 2
    assert main(["check", str(tmp_path)]) == 2
    assert main(["check", "bundled:arch/gemini_large"]) == 2
    message = capsys.readouterr().err
    assert "none.yaml" in message and "gemmini_large" in message


def test_an_unwritable_output_folder_is_found_before_the_search(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file" / "out"
    assert main(["map", "bundled:arch/gemmini_small", "bundled:problems/conv", "--energy", "bundled",
                 "-o", str(out)]) == 2
    assert "file" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs file size limits")
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    code = ("import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); from fadiff_mapper.cli import main; "
            "sys.exit(main(['map', 'bundled:arch/gemmini_small', 'bundled:problems/conv', '--energy', 'bundled', "
            f"'-o', {str(tmp_path / 'out')!r}, '--steps', '2', '--restarts', '4', '--quiet']))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2 and done.stderr.startswith("error: "), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_contradictory_constraints_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = design()
    document["mapspace_constraints"] = {"targets": [{"target": "Buffer", "type": "temporal", "factors": "M=8"},
                                                    {"target": "DRAM", "type": "temporal", "factors": "M=2"}]}
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(document))
    assert main(["map", str(path), "-o", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert "M=8" in message and "M=2" in message


def test_all_mistakes_of_a_kind_are_reported_at_once() -> None:
    document = design()
    document["problem"]["instance"] |= {"HStride": 2, "WStride": 2}
    with pytest.raises(SpecError) as caught:
        load(document)
    assert len(caught.value.problems) == 2
