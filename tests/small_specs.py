"""Small problems and spaces that several tests search to the last mapping."""

from __future__ import annotations

import itertools

import numpy as np
import yaml

from fadiff_mapper import SearchOptions, load
from fadiff_mapper.inputs.native.constraints import read_constraints
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, Term
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import EnergyTable, Tables
from fadiff_mapper.inputs.yaml.located import with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace
from fadiff_mapper.search.options import Effort

QUICK = SearchOptions(effort=Effort(chains=24, rounds=40, extra_rounds=0))


PRICES = Tables(ert=tuple(EnergyTable(f"tiny.{name}", actions) for name, actions in (
    ("L0", {"read": 1.0, "write": 2.0, "leak": 0.3}), ("L1", {"read": 5.0, "write": 3.0, "update": 4.0}),
    ("L2", {"read": 50.0, "write": 70.0, "leak": 0.1}), ("L3", {"read": 300.0, "write": 200.0}),
    ("MAC", {"compute": 0.5}))))
"""Prices of four levels and the units of a design named tiny, all different."""


def product(**constraints: object) -> Spec:
    """A matrix product on DRAM, a small buffer and four units."""
    return load({
        "architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": [
            {"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16, "shared_bandwidth": 2}},
            {"name": "Buffer", "class": "SRAM", "attributes": {"entries": 12, "word_bits": 16, "read_bandwidth": 4}},
            {"name": "MAC[0..3]", "class": "mac", "attributes": {"word_bits": 16}}]}]},
        "problem": {"shape": {"name": "product", "dimensions": ["M", "K", "N"], "data_spaces": [
            {"name": "A", "projection": [[["M"]], [["K"]]]}, {"name": "B", "projection": [[["K"]], [["N"]]]},
            {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True}]},
            "instance": {"M": 4, "K": 4, "N": 4}}, **constraints})


def whole_space(spec: Spec) -> Nest:
    """Every mapping of `product`: factorizations, orders, and what the buffer keeps."""
    splits = [(a, b, 4 // (a * b)) for a in (1, 2, 4) for b in (1, 2, 4) if 4 % (a * b) == 0]
    orders = list(itertools.permutations(range(3)))
    rows = list(itertools.product(itertools.product(splits, repeat=3), orders, orders,
                                  itertools.product((False, True), repeat=3)))
    factors = np.array([row[0] for row in rows], dtype=np.float64)                # [B, dim, (spatial, buffer, DRAM)]
    temporal = np.stack([factors[:, :, 1].T, factors[:, :, 2].T])
    spatial = np.stack([factors[:, :, 0].T, np.ones_like(factors[:, :, 0].T)])
    order = np.stack([np.array([row[1] for row in rows]).T, np.array([row[2] for row in rows]).T])
    keep = np.stack([np.array([row[3] for row in rows]).T, np.ones((3, len(rows)), dtype=bool)])
    still = np.broadcast_to(np.arange(3)[None, :, None], order.shape)
    return Nest(temporal, spatial, order, keep, np.zeros(order.shape, dtype=bool), still)


def storage(name: str, mesh: tuple[int, int] = (1, 1), size: int | None = 1 << 20, kind: str = "SRAM") -> StorageLevel:
    return StorageLevel(name, kind, instances=mesh[0] * mesh[1], mesh_x=mesh[0], mesh_y=mesh[1], word_bits=8,
                        block_size=1, cluster_size=1, size=size)


def chip(*levels: StorageLevel, macs: tuple[int, int]) -> Architecture:
    return Architecture("chip", levels, Arithmetic("MAC", "mac", macs[0] * macs[1], *macs, word_bits=8))


def matmul(m: int, k: int, n: int) -> Problem:
    return Problem("matmul", {"M": m, "K": k, "N": n}, (
        DataSpace("A", ((Term("M"),), (Term("K"),))), DataSpace("B", ((Term("K"),), (Term("N"),))),
        DataSpace("Z", ((Term("M"),), (Term("N"),)), read_write=True)))

# 64 MACs: an 8 x 4 grid of L1s, two MACs below each in Y.
GRID = chip(storage("L1", (8, 4), 256), storage("L2", size=65536), storage("DRAM", size=None, kind="DRAM"), macs=(8, 8))


def space(constraints: str = "[]", problem: Problem | None = None, arch: Architecture = GRID) -> MapSpace:
    problem = problem or matmul(128, 256, 64)
    document = with_places({"mapspace": yaml.safe_load(constraints)}, Where("c.yaml"))
    fanouts = [arch.fanout(i) for i in range(len(arch.levels))]
    return build_mapspace(arch, problem, read_constraints(document, arch.levels, fanouts, problem))

TWO_LAYERS = """
workload:
  version: 1
  name: two
  inputs: {input: [1, 4, 8, 8]}
  shapes:
  - {id: one, op: conv, dims: {N: 1, M: 8, C: 4, P: 8, Q: 8, R: 3, S: 3}, stride: [1, 1]}
  - {id: two, op: conv, dims: {N: 1, M: 8, C: 8, P: 8, Q: 8, R: 1, S: 1}, stride: [1, 1]}
  graph:
  - {name: first, shape: one, from: [input]}
  - {name: second, shape: two, from: [first]}
"""
"""A network of two convolutions, the second on the output of the first."""
