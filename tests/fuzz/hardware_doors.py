"""Doors for hardware: spaces of designs, tables of measured cycles, and the calibrations made of them."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
from pathlib import Path

import yaml
from fuzz.attack import Case
from fuzz.doors import EFFORT, TABLES, TWO_LAYERS
from fuzz.mutations import mutated_text, mutated_tree, nasty

SPACES = ("""
design_space:
  version: 0.1
  parameters:
    columns: {path: PEColumns.spatial.meshX, powers_of_two: [8, 16]}
    depth: {path: Scratchpad.attributes.depth, range: [1024, 4096], step: 1024}
    bandwidth: {path: DRAM.attributes.shared_bandwidth, values: [4, 8]}
  ties: {Scratchpad.attributes.shared_bandwidth: 2 * columns}
  limits: {columns * depth: 65536}
""", """
design_space:
  version: 0.1
  parameters: {kb: {values: [4, 8]}, rows: {path: PERows.spatial.meshY, values: [4, 16]}}
  ties: {Scratchpad.attributes.depth: kb * 1024 // rows}
  limits: {area_mm2: 3.0, leakage_pj: 1e6, units: 256}
""")

LIMITS = ("area_mm2=1", "units=0", "columns=1e400", "columns * 9 ** 9 ** 9=1", "=", "area_mm2=nan", "kb=-1",
          "__import__=1")
METRICS = ("edp", "area", "energy*area", "edap", "x", "edp*", "area*area*area")

MEASURED = """R,S,P,Q,C,K,N,part,mapping,rtl_cycles
1,1,1,1,4,8,1,train,L3[WIO] K2 - L2[WI] K4X - L1[O] C4X - L0[W] N1,500
1,1,1,1,8,8,1,train,L3[WIO] K2 - L2[WI] K4X - L1[O] C8X - L0[W] N1,700
1,1,1,1,16,8,1,train,L3[WIO] K2 - L2[WI] K4X - L1[O] C16X - L0[W] N1,900
1,1,8,8,16,8,1,searched,L3[WIO] K2 - L2[WI] Q8 K4X - L1[O] C16X - L0[W] P8,4900
1,1,1,1,32,8,1,train,L3[WIO] C2 K2 - L2[WI] K4X - L1[O] C16X - L0[W] N1,1900
1,1,4,4,16,8,1,train,L3[WIO] K2 - L2[WI] Q4 K4X - L1[O] C16X - L0[W] P4,2900
3,3,8,8,16,8,1,train,L3[WIO] K2 - L2[WI] Q8 K4X - L1[O] R3 S3 C16X - L0[W] P8,9900
"""
LAYER = "bundled:layers/vgg16/fc_4096_1000"
MEASURED_DESIGN = "bundled:spaces/dosa_gemmini"


def design_spaces(folder: Path, rng: random.Random) -> Case:
    """A space of designs, its tree or its text mutated, and the words of the command that bear on it."""
    text = rng.choice(SPACES)
    if rng.random() < 0.7:
        text = yaml.safe_dump(mutated_tree(yaml.safe_load(text), rng), sort_keys=False, allow_unicode=True)
    elif rng.random() < 0.5:
        text = mutated_text(text, rng)
    (folder / "space.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "net.yaml").write_text(TWO_LAYERS)
    if rng.random() < 0.3:
        return Case(("check", "space.yaml", "bundled:arch/gemmini_small"))
    words = rng.choice(((), (), ("--limit", rng.choice(LIMITS)), ("--metric", rng.choice(METRICS)),
                        ("--vary", rng.choice(("x=1,2", "kb=1:1e9:1", "rows=8:64:x2", "=", "kb=a"))),
                        ("--shard", rng.choice(("1/2", "0/0", "3/2", "a", "1/99999999999"))),
                        ("--weights", rng.choice(("1", "0", "-1", "nan", "1,2", "1e400")))))
    return Case(("design", "space.yaml", "net.yaml", "--arch", "bundled:arch/gemmini_small", "-o", "out", "--quiet",
                 *TABLES, "--no-fusion", "--jobs", "1", "--method", rng.choice(("random", "random", "exhaustive")),
                 "--evaluations", "1", "--time-limit", "1", *words))


def measured_cycles(folder: Path, rng: random.Random) -> Case:
    """A table of measured cycles whose cells, rows or text are mutated."""
    rows = [line.split(",") for line in MEASURED.splitlines()]
    if rng.random() < 0.5:
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = str(nasty(rng))
    text = "\n".join(",".join(row) for row in rows * rng.choice((1, 1, 2)))
    text = mutated_text(text, rng) if rng.random() < 0.5 else text
    (folder / "measured.csv").write_bytes(text.encode("utf-8", "surrogatepass"))
    return Case(("calibrate", "measured.csv", MEASURED_DESIGN, "-o", "model.json",
                 "--program", rng.choice(("as-mapped", "gemmini"))))


@functools.cache
def calibration() -> str:
    """The file of a calibration to the measured cycles above."""
    from tempfile import TemporaryDirectory

    from fadiff_mapper.cli import main
    with TemporaryDirectory() as name:
        Path(name, "measured.csv").write_text(MEASURED)
        with contextlib.redirect_stdout(io.StringIO()):
            main(["calibrate", f"{name}/measured.csv", MEASURED_DESIGN, "-o", f"{name}/model.json"])
        return Path(name, "model.json").read_text()


def calibrations(folder: Path, rng: random.Random) -> Case:
    """The file of a calibration, changed since, by which a layer is mapped."""
    saved = calibration()
    saved = json.dumps(mutated_tree(json.loads(saved), rng)) if rng.random() < 0.7 else mutated_text(saved, rng)
    (folder / "model.json").write_bytes(saved.encode("utf-8", "surrogatepass"))
    return Case(("map", MEASURED_DESIGN.replace("spaces/dosa_gemmini", "arch/gemmini_large"), LAYER, "-o", "out",
                 "--quiet", "--calibration", "model.json", *(("--force",) if rng.random() < 0.5 else ()), *TABLES,
                 *EFFORT))
