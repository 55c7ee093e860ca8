"""What the joint descent and the enumeration of short groups bring to a network's plan, each alone and both.

    python benchmarks/fusion_ablation.py [NETWORK ...]

On gemmini_large. Layers are mapped once; "s" is the processor time of the rest, "longest" the layers of the longest
group in the plan.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from fadiff_mapper import NetworkOptions, load_network, map_network
from fadiff_mapper.base import bundled_files

SOURCES = {
    "enumerated": NetworkOptions(gradient=False),
    "descent": NetworkOptions(enumeration=False),
    "both": NetworkOptions(),
    "descent on the paper's model": NetworkOptions(enumeration=False, model="paper"),
    "both, the paper's model": NetworkOptions(model="paper"),
}
"""Sources of candidate groups, by what a line of the table is called."""


def main() -> None:
    design = bundled_files.find("arch/gemmini_large")
    print(f"{'network':16} {'groups from':30} {'saved':>7} {'groups':>6} {'longest':>7} {'s':>6}")
    for name in sys.argv[1:] or ["mobilenet_v1", "resnet18"]:
        network = load_network(f"bundled:networks/{name}")
        with TemporaryDirectory() as folder:
            layers, saved = Path(folder) / "layers.json", Path(folder) / "run.json"
            map_network(network, design, NetworkOptions(fuse=False), checkpoint_file=layers)
            for label, options in SOURCES.items():
                copyfile(layers, saved)
                start = time.process_time()
                result = map_network(network, design, options, checkpoint_file=saved)
                longest = max((len(group.nodes) for group in result.groups), default=0)
                print(f"{name:16} {label:30} {result.gain:7.2%} {len(result.groups):6} {longest:7} "
                      f"{time.process_time() - start:6.1f}", flush=True)


if __name__ == "__main__":
    main()
