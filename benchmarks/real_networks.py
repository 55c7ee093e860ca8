"""Networks that others wrote, imported: layers, multiply-accumulates beside PyTorch's own count, and links.

    python benchmarks/real_networks.py [NAME ...] [--every N] [--onnx FILE ...] [--record FILE] [-o FILE]

Networks are those of `made_networks.py`, as far as their libraries are installed; ONNX files come from anywhere, their
open axes set to 1 where they are batches and to `OPEN` else. "As counted" compares the layers, and what reads constants
alone, with `torch.utils.flop_counter` on the same module (products in fused kernels, which it leaves out, added by
`COUNTED`). "Read again" says whether the network file gives the same network back. A name is one of the table's.
`--record` keeps every network file, for tests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from made_networks import NETWORKS, Made, installed
from provenance import add_output, heading, markdown, row
from torch.utils.flop_counter import FlopCounterMode

from fadiff_mapper import FadiffError, Workload, load_network, save_network
from fadiff_mapper.workload import coverage
from fadiff_mapper.workload.readers.network_text import network_text

OPEN = 320
"""Extent that an open axis of an ONNX input gets, other than the first."""


def _attended(query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Floating point operations of an attention kernel: both products."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _grouped(rows: Any, weights: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Floating point operations of the products of a mixture of experts."""
    return int(2 * math.prod(rows) * weights[-1])


COUNTED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attended, torch.ops.aten._grouped_mm: _grouped}
"""Kernels that PyTorch's counter leaves out -> the function that counts them."""


@dataclass(frozen=True)
class Imported:
    """A network as imported.

    Attributes:
        name: Its name in the table.
        share: Part of its multiply-accumulates that is understood, at most where there are unknown operators.
        unknown: Operators that may have any number of multiply-accumulates.
        layers: Its layers, distinct ones, and links between them.
        macs: Multiply-accumulates, those that are missing and those from constants alone included.
        counted: The same as PyTorch counts them; None where PyTorch cannot run the module.
        passing: Links through which tiles, or whole tensors, pass.
        obstacles: Of the other links, obstacle -> their number.
        again: Whether the network file gives the same network back, or why not.
        seconds: Time to make, trace, import and count it.
    """

    name: str
    share: float
    unknown: int
    layers: tuple[int, int, int]
    macs: int
    counted: int | None
    passing: int
    obstacles: Counter[str]
    again: str
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1, help="take every N-th network")
    parser.add_argument("--onnx", nargs="*", type=Path, default=[])
    parser.add_argument("--record", type=Path)
    add_output(parser)
    options = parser.parse_args()
    every = [] if options.onnx else [name for name in NETWORKS if installed(name)][::options.every]
    names = options.names or every
    recorded: dict[str, Any] = {}
    table: list[Imported] = []
    with markdown(options.output) as write:
        write(heading("network", "layers / distinct", "multiply-accumulates", "understood", "as counted",
                      "links that pass", "obstacles", "read again", "s"))
        for name in [*names, *options.onnx]:
            start = time.perf_counter()
            try:
                network, counted = from_onnx(name) if isinstance(name, Path) else traced(name)
            except Exception as error:  # of any library; the table goes on
                write(row(str(name), f"{type(error).__name__}: {' '.join(str(error).split())[:120]}", *[""] * 7))
                continue
            table.append(imported(str(name), network, counted, time.perf_counter() - start))
            write(line(table[-1]))
            recorded[str(name)] = {"counted": counted, "file": network_text(network), "layers": len(network.layers)}
            if options.record:
                with gzip.GzipFile(options.record, "wb", mtime=0) as file:
                    file.write(json.dumps(recorded, sort_keys=True).encode())
        write(f"\n{totals(table)}")


def traced(name: str) -> tuple[Workload, int | None]:
    """A network of the table, and its multiply-accumulates as PyTorch counts them.

    Modules are made on the meta device, without memory; on the CPU where they mix devices or look at values.
    """
    try:
        network, made = _loaded(name, "meta")
    except FadiffError:
        network, made = _loaded(name, "cpu")
    for again in (lambda: made, NETWORKS[name]):
        with suppress(Exception):  # a module that looks at values does not run on the meta device
            return network, counted(*again())
    return network, None


def _loaded(name: str, device: str) -> tuple[Workload, Made]:
    """A network made on a device, with the module and its inputs."""
    with warnings.catch_warnings(), torch.device(device):
        warnings.simplefilter("ignore")
        module, inputs, keywords = NETWORKS[name]()
        return load_network(module, inputs, example_kwargs=keywords, name=name), (module, inputs, keywords)


def counted(module: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> int:
    """Multiply-accumulates as PyTorch counts them.

    Its counter refuses some modules whose weights want gradients, and does not know the kernels of attention for
    inference.
    """
    module.requires_grad_(False)
    torch.backends.mha.set_fastpath_enabled(False)
    with FlopCounterMode(display=False, custom_mapping=COUNTED) as counter, torch.no_grad():
        module(*inputs, **keywords)
    return int(counter.get_total_flops()) // 2


def from_onnx(path: Path) -> tuple[Workload, None]:
    """A network of an ONNX file, open axes closed."""
    import onnx

    model = onnx.ModelProto.FromString(path.read_bytes())
    weights = {tensor.name for tensor in model.graph.initializer}
    shapes = {}
    for value in model.graph.input:
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
        if value.name not in weights and not all(size > 0 for size in sizes):
            shapes[value.name] = [size if size > 0 else OPEN if index else 1 for index, size in enumerate(sizes)]
    return load_network(path, shapes=shapes), None


def imported(name: str, network: Workload, counts: int | None, seconds: float) -> Imported:
    """A network with what the table says of it; its file is written and read again."""
    found, links = coverage(network), network.links()
    whole = found.understood + found.missing + sum(entry.macs for entry in found.folded)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "network.yaml"
        save_network(network, file)
        try:
            again = "yes" if load_network(file) == network else "no"
        except FadiffError as error:
            again = str(error)
    return Imported(name, found.share, len(found.uncounted), (len(network.layers), len(network.distinct()), len(links)),
                    whole, counts, sum(link.fusable for link in links),
                    Counter(link.obstacle.name for link in links if link.obstacle), again, seconds)


def line(network: Imported) -> str:
    """A row of the table."""
    layers, distinct, links = network.layers
    understood = ("at most " if network.unknown else "") + f"{network.share:.2%}"
    counted = network.counted
    equal = "not counted" if not counted else "yes" if counted == network.macs else f"{network.macs / counted:.4f}"
    return row(network.name, f"{layers} / {distinct}", f"{network.macs:,}", understood, equal,
               f"{network.passing} of {links}",
               ", ".join(f"{name} {count}" for name, count in network.obstacles.most_common()), network.again,
               f"{network.seconds:.1f}")


def totals(table: Sequence[Imported]) -> str:
    """The table in a sentence."""
    whole = sum(network.share == 1 and not network.unknown for network in table)
    equal = sum(network.macs == network.counted for network in table)
    again = sum(network.again == "yes" for network in table)
    links, passing = sum(network.layers[2] for network in table), sum(network.passing for network in table)
    obstacles = sum((network.obstacles for network in table), Counter())
    return (f"{len(table)} networks: {whole} with 100 % of their multiply-accumulates, {equal} as counted, {again} "
            f"read again. Of {links:,} links {passing:,} pass"
            + "".join(f"; {name} {count}" for name, count in obstacles.most_common()) + ".")


if __name__ == "__main__":
    main()
