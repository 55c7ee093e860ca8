"""Profiles for LLMServingSim: their rows add up to the inference that they stand for."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fadiff_mapper import infer
from fadiff_mapper.cli import main
from fadiff_mapper.inference.serving_profile import doubled

TPU = "bundled:inference/tpu_v4i_like"
COLUMNS = {"dense.csv": ["layer", "tokens", "time_us"], "per_sequence.csv": ["layer", "sequences", "time_us"],
           "attention.csv": ["prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"],
           "moe.csv": ["tokens", "activated_experts", "time_us"]}


def table(path: Path) -> dict[tuple[str, ...], float]:
    """Microseconds by all other columns."""
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == COLUMNS[path.name]
    return {tuple(row[:-1]): float(row[-1]) for row in rows}


@pytest.mark.parametrize(("first", "last", "numbers"), [
    (16, 100, [16, 32, 64, 100]), (16, 64, [16, 32, 64]), (16, 16, [16]), (16, 3, [16]), (1, 1, [1])])
def test_entries_of_a_table_double_up_to_the_last_one(first: int, last: int, numbers: list[int]) -> None:
    assert doubled(first, last) == numbers


@pytest.mark.slow
@pytest.mark.parametrize("model, layers", [("llama3_8b", 32), ("qwen3_8b", 36), ("mixtral_8x7b", 32)])
def test_rows_add_up_to_the_time_to_first_token(model: str, layers: int, tmp_path: Path) -> None:
    assert main(["infer", f"bundled:models/{model}", TPU, "--prompt", "512", "--generate", "32", "--batch", "1,4",
                 "--serving-profile", "-o", str(tmp_path)]) == 0
    folder = tmp_path / "llmservingsim" / "tp1"
    dense, heads = table(folder / "dense.csv"), table(folder / "per_sequence.csv")
    attention = table(folder / "attention.csv")
    of_layer = sum(time * (2 if name == "layernorm" else 1) for (name, tokens), time in dense.items()
                   if tokens == "512" and name not in ("embedding", "final_layernorm"))
    experts = sum(time for (tokens, _), time in table(folder / "moe.csv").items()
                  if tokens == "512") if model.startswith("mixtral") else 0
    total = (dense["embedding", "512"] + layers * (of_layer + experts + attention["512", "0", "0", "0"])
             + dense["final_layernorm", "1"] + heads["lm_head", "1"])
    with (tmp_path / "tokens.csv").open(encoding="utf-8", newline="") as file:
        first = next(row for row in csv.DictReader(file) if row["batch"] == "1")
    assert total == pytest.approx(1e6 * float(first["seconds"]), rel=1e-9)
    beside = attention["256", "64", "4", "128"]  # a chunk and sequences that decode run in turn
    assert beside == pytest.approx(attention["256", "64", "0", "0"] + attention["0", "0", "4", "128"])


def test_a_profile_replaces_another_models_whole(tmp_path: Path) -> None:
    tables = tmp_path / "llmservingsim" / "tp1"
    tables.mkdir(parents=True)
    for name in ("moe.csv", "notes.txt"):
        (tables / name).write_text("")
    config = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4,
              "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 64}
    infer(config, TPU, prompt=16, generate=2, serving_profile=True, output=tmp_path)
    assert {path.name for path in tables.iterdir()} == {*COLUMNS, "notes.txt"} - {"moe.csv"}


def test_a_model_of_unlike_layers_is_refused_and_writes_nothing(tmp_path: Path,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["infer", "bundled:models/gemma2_9b", TPU, "--serving-profile", "-o", str(tmp_path / "out")]) == 2
    assert "no profile of LLMServingSim can describe its layers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
