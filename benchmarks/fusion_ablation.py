"""The sources of fused groups, joint descent and enumeration of short groups: a network's plan with each and with both.

    python benchmarks/fusion_ablation.py [NETWORK ...] [-o FILE]

On gemmini_large. Layers are mapped once; "CPU s" is the processor time of the rest, "longest" the layers of the longest
group in the plan.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import NetworkOptions, load_network, map_network
from fadiff_mapper.base import bundled_files

SOURCES = {
    "enumerated": NetworkOptions(),
    "descent": NetworkOptions(gradient=True, enumeration=False),
    "both": NetworkOptions(gradient=True),
    "descent on the paper's model": NetworkOptions(gradient=True, enumeration=False, model="paper"),
    "both, the paper's model": NetworkOptions(gradient=True, model="paper"),
}
"""Sources of candidate groups, by the name of the row of the table."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["mobilenet_v1", "resnet18"], metavar="NETWORK")
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        write(heading("network", "groups from", "saved", "groups", "longest", "CPU s"))
        for name in options.names:
            compare(name, write)


def compare(name: str, write: Write) -> None:
    """Writes a row per source of groups for one network; all start from the same mappings of its layers."""
    network, design = load_network(f"bundled:networks/{name}"), bundled_files.find("arch/gemmini_large")
    with TemporaryDirectory() as folder:
        layers, saved = Path(folder) / "layers.json", Path(folder) / "run.json"
        map_network(network, design, NetworkOptions(fuse=False), checkpoint_file=layers)
        for label, options in SOURCES.items():
            copyfile(layers, saved)
            start = time.process_time()
            result = map_network(network, design, options, checkpoint_file=saved)
            longest = max((len(group.nodes) for group in result.groups), default=0)
            write(row(name, label, f"{result.gain:.2%}", len(result.groups), longest,
                      f"{time.process_time() - start:.1f}"))


if __name__ == "__main__":
    main()
