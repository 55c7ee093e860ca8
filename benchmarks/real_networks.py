"""Networks that others wrote, imported: layers, multiply-accumulates beside PyTorch's own count, and links.

    python benchmarks/real_networks.py [NAME ...] [--onnx FILE ...] [--record FILE] [-o FILE]

Networks are those of `made_networks.py`, as far as their libraries are installed; ONNX files come from anywhere, their
open axes set to 1 where they are batches and to `OPEN` else. "counted" is `torch.utils.flop_counter` on the same module
(products in fused kernels, which it leaves out, added by `COUNTED`); "equal" compares it with the layers and what reads
constants alone. "again" says whether the network file gives the same network back. A name is one of the table's.
`--record` keeps every network file, for tests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
import warnings
from contextlib import suppress
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--onnx", nargs="*", type=Path, default=[])
    parser.add_argument("--record", type=Path)
    add_output(parser)
    options = parser.parse_args()
    names = options.names or ([] if options.onnx else [name for name in NETWORKS if installed(name)])
    recorded: dict[str, Any] = {}
    with markdown(options.output) as write:
        write(heading("network", "understood", "layers", "distinct", "MACs", "counted", "equal", "links", "fusable",
                      "again", "s"))
        for name in [*names, *options.onnx]:
            start = time.perf_counter()
            try:
                network, counted = from_onnx(name) if isinstance(name, Path) else traced(name)
            except Exception as error:  # of any library; the table goes on
                write(row(str(name), f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"))
                continue
            write(described(str(name), network, counted, time.perf_counter() - start))
            recorded[str(name)] = {"counted": counted, "file": network_text(network), "layers": len(network.layers)}
            if options.record:
                with gzip.GzipFile(options.record, "wb", mtime=0) as file:
                    file.write(json.dumps(recorded, sort_keys=True).encode())


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
    """Multiply-accumulates as PyTorch counts them."""
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


def described(name: str, network: Workload, counts: int | None, seconds: float) -> str:
    """A row of the table."""
    found, links = coverage(network), network.links()
    whole = found.understood + found.missing + sum(entry.macs for entry in found.folded)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "network.yaml"
        save_network(network, file)
        try:
            again = "yes" if load_network(file) == network else "no"
        except FadiffError as error:
            again = str(error)
    return row(name, f"{found.share:.2%}" + (f" + {len(found.uncounted)} unknown" if found.uncounted else ""),
               len(network.layers), len(network.distinct()), whole, "" if counts is None else counts,
               "" if counts is None else "yes" if counts == whole else f"{whole / counts:.4f}", len(links),
               sum(link.fusable for link in links), again, f"{seconds:.1f}")


if __name__ == "__main__":
    main()
