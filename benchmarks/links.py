"""How many links of real networks tiles pass, and what is in the way of the others: one row each.

    python benchmarks/links.py [NAME ...] [-o FILE]

A link leads from a layer to one that reads its output. A link passes "in tiles" where a loop can cut the tensor,
"whole" where only all of it can be handed on (whole rows, or axes that are rearranged); else the obstacle is counted by
name.
"groups" are the links that the fused groups of `map_network` can have. Networks come from the package, and from
torchvision, timm, transformers, segmentation_models_pytorch, ultralytics and diffusers where these are installed; they
are built from their configurations on the "meta" device, without weights.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from provenance import add_output, heading, markdown, row

from fadiff_mapper import FadiffError, Workload, load_network
from fadiff_mapper.fusion.segments import segments

BUNDLED = ("resnet18", "vgg16", "mobilenet_v1", "gpt3_6b7_block", "llama3_8b_prefill", "llama3_8b_decode",
           "qwen3_8b_prefill", "qwen3_8b_decode", "gemma2_9b_prefill", "gemma2_9b_decode", "mixtral_8x7b_prefill",
           "mixtral_8x7b_decode", "deepseek_v3_prefill", "deepseek_v3_decode")

Made = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]
"""A module, its positional and its keyword arguments."""


def vision(name: str, size: int = 224, **options: Any) -> Callable[[], Made]:
    """A network of torchvision, by its name there."""
    return lambda: (getattr(import_module("torchvision.models"), name)(weights=None, **options),
                    (torch.empty(1, 3, size, size),), {})


def timm(name: str) -> Callable[[], Made]:
    """A network of timm, by its name there."""
    return lambda: (import_module("timm").create_model(name, pretrained=False), (torch.empty(1, 3, 224, 224),), {})


def segmentation(name: str) -> Callable[[], Made]:
    """A network of segmentation_models_pytorch on ResNet-34, by its name there."""
    return lambda: (getattr(import_module("segmentation_models_pytorch"), name)("resnet34", encoder_weights=None),
                    (torch.empty(1, 3, 224, 224),), {})


def language(name: str, **config: Any) -> Callable[[], Made]:
    """A network of transformers with few layers on 128 tokens, by the prefix of its classes."""
    def make() -> Made:
        transformers = import_module("transformers")
        tokens = torch.empty(1, 128, dtype=torch.long)
        keywords: dict[str, Any] = {"input_ids": tokens} | ({} if name == "Bert" else {"use_cache": False})
        keywords |= {"decoder_input_ids": tokens} if name == "T5" else {}
        configuration = getattr(transformers, f"{name}Config")(vocab_size=1000, pad_token_id=0, **config)
        return getattr(transformers, f"{name}Model")(configuration), (), keywords
    return make


def detection(name: str) -> Callable[[], Made]:
    """A network of ultralytics, by its name there; made on the processor, since its strides are found by running."""
    def make() -> Made:
        with torch.device("cpu"):
            model = import_module("ultralytics.nn.tasks").DetectionModel(f"{name}.yaml", verbose=False).eval()
            return model.fuse(verbose=False).to("meta"), (torch.empty(1, 3, 640, 640, device="meta"),), {}
    return make


def diffusion() -> Made:
    """The U-Net of Stable Diffusion 1 on a small image."""
    model = import_module("diffusers").UNet2DConditionModel(sample_size=32, cross_attention_dim=768)
    return model, (), {"sample": torch.empty(1, 4, 32, 32), "timestep": torch.empty((), dtype=torch.long),
                       "encoder_hidden_states": torch.empty(1, 77, 768)}


MADE: dict[str, Callable[[], Made]] = {
    **{name: vision(name) for name in (
        "mobilenet_v3_large", "efficientnet_b0", "densenet121", "shufflenet_v2_x1_0", "squeezenet1_1",
        "resnext50_32x4d", "convnext_tiny", "swin_t", "vit_b_16")},
    "googlenet": vision("googlenet", aux_logits=False, init_weights=False),
    "inception_v3": vision("inception_v3", 299, aux_logits=False, init_weights=False),
    "convnextv2_nano": timm("convnextv2_nano"), "unet_resnet34": segmentation("Unet"),
    "fpn_resnet34": segmentation("FPN"), "bert": language("Bert", num_hidden_layers=2),
    "gpt2": language("GPT2", n_layer=2), "t5": language("T5", num_layers=2, num_decoder_layers=2),
    "llama": language("Llama", num_hidden_layers=2, num_key_value_heads=8),
    "qwen3": language("Qwen3", num_hidden_layers=1), "gemma2": language("Gemma2", num_hidden_layers=2),
    "phi3": language("Phi3", num_hidden_layers=1), "yolov8n": detection("yolov8n"), "yolo11n": detection("yolo11n"),
    "stable_diffusion": diffusion,
}
"""Networks of other packages -> a function that makes them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    add_output(parser)
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with markdown(options.output) as write:
        write(heading("network", "layers", "links", "in tiles", "whole", "groups", "obstacles"))
        for name in options.names or (*BUNDLED, *MADE):
            workload = network(name)
            if isinstance(workload, Workload):
                counted = counts(workload)
                total += counted
                write(line(name, len(workload.layers), counted))
            else:
                write(row(name, "", "", "", "", "", workload))
        write(line("all", "", total))


def network(name: str) -> Workload | str:
    """A network by its name, or the reason why it cannot be had."""
    if name in BUNDLED:
        return load_network(f"bundled:networks/{name}")
    warnings.simplefilter("ignore")
    try:
        with torch.device("meta"):
            module, arguments, keywords = MADE[name]()
            return load_network(torch.export.export(module.eval(), arguments, keywords, strict=False), name=name)
    except ImportError as error:
        return f"not installed: {error.name}"
    except FadiffError as error:
        return str(error)


def counts(workload: Workload) -> Counter[str]:
    """Links by how they pass: "in tiles", "whole", "groups", and the names of obstacles."""
    found = Counter(link.obstacle.name if link.obstacle else "in tiles" if link.in_tiles else "whole"
                    for link in workload.links())
    found["groups"] = len({segment.nodes for segment in segments(workload, 2)})
    return found


def line(name: str, layers: object, counted: Counter[str]) -> str:
    """The row of a network."""
    ways = ("in tiles", "whole", "groups")
    obstacles = {what: count for what, count in counted.most_common() if what not in ways and count}
    links = sum(obstacles.values()) + counted["in tiles"] + counted["whole"]
    return row(name, layers, links, *(counted[way] for way in ways),
               ", ".join(f"{what} {count}" for what, count in obstacles.items()))


if __name__ == "__main__":
    main()
