"""Doors for what designs say of zeros, and for reading that only warns of what Timeloop ignores."""

from __future__ import annotations

import copy
import functools
import random
import re
from pathlib import Path
from typing import Any

import yaml
from fuzz.attack import Case
from fuzz.doors import EFFORT, TABLES, TWO_LAYERS, native
from fuzz.mutations import mutated_tree, nasty
from recorded_cases import RECORDED, recording

Json = dict[str, Any]

DENSITIES = (0, 1, 0.5, 1e-9, 0.3333, -0.1, 1.5, 1e-30, 1 - 2 ** -53, float("nan"), float("inf"), "0.5", [], None, True)
WIDTHS = (0, 1, 2, 7, 10 ** 6, 2 ** 31, 2 ** 53, -1, 1.5)
TIMES = (2, 3, 8, 1000, 2 ** 20, 2 ** 30)
BOUNDS = (1, 2, 3, 7, 64, 1000, 65521, 2 ** 20, 2 ** 26, 2 ** 40)


@functools.cache
def sparse_inputs() -> tuple[Json, ...]:
    """Designs with densities, formats, gating and skipping, on which Timeloop has been run."""
    found = recording(RECORDED.with_name("timeloop_sparse.jsonl.gz"))
    inputs = []
    for case in found["case"].values():
        arch, problem = found["arch"][case["arch"]], found["problem"][case["problem"]]["problem"]
        options = {"sparse_optimizations": case["sparse_optimizations"]} if case["sparse_optimizations"] else {}
        problem = {**problem, "instance": {**problem["instance"], **(case["densities"] or {})}}
        inputs.append({arch["key"]: arch["native"], "ERT": arch["ert"], "mapping": case["mapping"],
                       "problem": problem, **options})
    return tuple(inputs)


def density(rng: random.Random) -> Any:
    """A density as a problem's instance may give it, or as no instance may."""
    if rng.random() < 0.3:
        return rng.choice(DENSITIES)
    found = {"distribution": rng.choice(("fixed", "fixed_structured", *["hypergeometric"] * 2, "banded", "x")),
             "density": rng.choice((*DENSITIES, 0.1, 0.25, 0.9)), "band_width": rng.choice(WIDTHS)}
    if rng.random() < 0.9:
        del found["density" if found["distribution"] == "banded" else "band_width"]
    return found


def sparse_designs(folder: Path, rng: random.Random) -> Case:
    """Hostile densities, widths, bounds and options in a sparse design; or any part of it mutated."""
    design = copy.deepcopy(rng.choice(sparse_inputs()))
    instance = design["problem"]["instance"]
    spaces = [space["name"] for space in design["problem"]["shape"]["data_spaces"]]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        match rng.randrange(4):
            case 0:
                instance.pop("densities", None)
                instance["commonDensity"] = density(rng)
            case 1:
                instance.pop("commonDensity", None)
                instance["densities"] = {name: density(rng) for name in spaces if rng.random() < 0.8}
            case 2:  # the loops of one directive take what a larger bound leaves
                name = rng.choice(design["problem"]["shape"]["dimensions"])
                instance[name] = instance[name] * rng.choice(TIMES) if rng.random() < 0.8 else rng.choice(BOUNDS)
                directive = rng.choice([one for one in design["mapping"] if one["type"] in ("temporal", "spatial")])
                directive["factors"] = re.sub(rf"\b{name}\s*=\s*\d+", f"{name}=0", directive["factors"])
            case _:
                design.setdefault("sparse_optimizations", {"targets": []})
    section = rng.choice(("sparse_optimizations", "sparse_optimizations", "problem", "mapping", None, None, None))
    if section in design:
        design[section] = mutated_tree(design[section], rng)
    (folder / "design.yaml").write_bytes(yaml.dump(design, sort_keys=False, allow_unicode=True).encode(
        "utf-8", "surrogatepass"))
    lenient = ("--lenient",) if rng.random() < 0.3 else ()
    if rng.random() < 0.8:
        return Case((rng.choice(("check", "evaluate", "evaluate", "evaluate")), "design.yaml", *TABLES, *lenient))
    return Case(("map", "design.yaml", "-o", "out", "--quiet", "--time-limit", "0.5", *TABLES, *EFFORT, *lenient))


def lenient_reading(folder: Path, rng: random.Random) -> Case:
    """Misspelt, misplaced and superfluous input where Timeloop puts up with it, read as Timeloop reads it."""
    design = mutated_tree(native()["input"], rng)
    for _ in range(rng.randint(0, 4)):
        section = rng.choice(list(design))
        node = design[section] if isinstance(design, dict) else None
        while isinstance(node, dict | list) and node and rng.random() < 0.8:
            node = rng.choice(list(node.values()) if isinstance(node, dict) else node)
        if isinstance(node, dict):
            node[rng.choice(("subtree", "entires", "word-bits", "shape", "local", "name", "Factors", "x"))] = nasty(rng)
    (folder / "arch.yaml").write_bytes(yaml.dump(design, sort_keys=False, allow_unicode=True).encode(
        "utf-8", "surrogatepass"))
    if rng.random() < 0.2:
        (folder / "net.yaml").write_text(TWO_LAYERS)
        return Case(("network", "net.yaml", "arch.yaml", "-o", "out", "--quiet", "--time-limit", "0.5", "--lenient",
                     *TABLES))
    if rng.random() < 0.2:
        return Case(("map", "arch.yaml", "-o", "out", "--quiet", "--time-limit", "0.5", "--lenient", *TABLES, *EFFORT))
    return Case((rng.choice(("check", "evaluate")), "arch.yaml", "--lenient", *TABLES))
