"""Old hyphenated words mean what they mean to Timeloop, in keys and in texts, in every section and either reading."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest
import yaml
from recorded_cases import RECORDED, Json, recording

from fadiff_mapper import SpecError, load
from fadiff_mapper.inputs.load import load_mapping
from fadiff_mapper.inputs.native.arch import written_components
from fadiff_mapper.inputs.native.hyphens import REWRITTEN, underscored
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.inputs.yaml.place import Where

SPARSE = RECORDED.with_name("timeloop_sparse.jsonl.gz")


def sparse_input(design: str = "rs_rle", problem: str = "conv3x3") -> Json:
    case = next(case for case in recording(SPARSE)["case"].values()
                if (case["arch"], case["problem"], case["status"]) == (design, problem, "ok") and case["densities"])
    arch, layer = recording(SPARSE)["arch"][design], recording(SPARSE)["problem"][problem]["problem"]
    return copy.deepcopy({
        arch["key"]: arch["native"], "ERT": arch["ert"], "sparse_optimizations": arch["sparse_optimizations"],
            "problem": {**layer, "instance": {**layer["instance"], **case["densities"]}}, "mapping": case["mapping"],
            "mapper": {"optimization_metric": "last_level_accesses", "num_threads": 2, "victory_condition": 3}})


def hyphenated(tree: Json) -> Json:
    words = "|".join(sorted(REWRITTEN, key=len, reverse=True))
    found: Json = json.loads(re.sub(rf"\b({words})\b", lambda word: word[0].replace("_", "-"), json.dumps(tree)))
    return found


@pytest.mark.parametrize("strict", [True, False])
def test_a_whole_input_in_hyphens_reads_the_same(strict: bool) -> None:
    plain = sparse_input()
    stored = next(target["representation_format"]["data_spaces"][0]
                  for target in plain["sparse_optimizations"]["targets"] if "representation_format" in target)
    stored["rank_application_order"] = "inner_to_outer"
    stored["ranks"][0]["metadata_word_bits"] = 2
    old = hyphenated(plain)
    for word in ("cluster-size", "data-spaces", "fixed-structured", "representation-format", "flattened-rankIDs",
                 "metadata-word-bits", "action-optimization", "condition-on", "rank-application-order",
                 "inner-to-outer", "last-level-accesses"):
        assert word in json.dumps(old), word
    want, found = load(plain), load(old, strict=strict)
    assert (found.arch, found.problem, found.sparse, found.mapping) == (
        want.arch, want.problem, want.sparse, want.mapping)
    assert (found.mapper, found.tables, found.warnings) == (want.mapper, want.tables, ())


def test_attributes_as_they_are_written_are_found_in_either_spelling() -> None:
    plain = sparse_input()
    ours, theirs = (written_components(load(text).arch.native) for text in (hyphenated(plain), plain))
    assert {name: part.own for name, part in ours.items()} == {name: part.own for name, part in theirs.items()}
    assert hyphenated(plain) != plain and load(hyphenated(plain)).arch.native == {
        key: tree for key, tree in hyphenated(plain).items() if key in ("arch", "architecture")}


def test_a_word_in_a_name_changes_wherever_the_name_stands() -> None:
    text = json.dumps(sparse_input()).replace('"Outputs"', '"my-read-write"').replace("Glb", "my-block-size")
    tree = json.loads(text)
    spec = load(tree)
    assert "my-read_write" in spec.problem.dataspace_names()
    assert load(json.loads(text.replace("read-write", "read_write"))).mapping == spec.mapping


@pytest.mark.parametrize(("text", "rewritten"), [
    ("fixed-structured", "fixed_structured"),
    ("x word-bits, block-size", "x word_bits, block_size"),
    ("network-word-bits", "network-word_bits"),
    ("fixed-structured-2", "fixed-structured-2"),
    ("log-all", "log_all"), ("log-all-mappings", "log_all_mappings"),
    ("read-writes", "read-writes"), ("tree-like.hpp", "tree-like.hpp"), ("read-write>", "read-write>"),
    ("energy-per-ingress", "energy-per-ingress"), ("read-bandwidth", "read-bandwidth"),
])
def test_words_are_found_as_timeloop_finds_them(text: str, rewritten: str) -> None:
    """Each pair as Timeloop's regular expressions, applied one after the other, make it."""
    assert underscored(text) == rewritten


def test_a_part_without_such_words_is_handed_back_itself() -> None:
    node = Map({"a": Map({"b-c": 1}, where=Where("f"))}, where=Where("f"))
    assert underscored(node) is node


def test_a_key_in_both_spellings_is_refused() -> None:
    tree = sparse_input()
    tree["problem"]["shape"]["data-spaces"] = tree["problem"]["shape"]["data_spaces"]
    with pytest.raises(SpecError, match='the key "data_spaces" is given twice, once as "data-spaces"'):
        load(tree)


def test_a_mapping_of_its_own_file_names_rewritten_levels(tmp_path: Path) -> None:
    tree = json.loads(json.dumps(sparse_input()).replace("Glb", "my-block-size"))
    file = tmp_path / "mapping.yaml"
    file.write_text(yaml.safe_dump({"mapping": tree["mapping"]}), encoding="utf-8")
    assert load_mapping(file, load(tree)) == load(tree).mapping
