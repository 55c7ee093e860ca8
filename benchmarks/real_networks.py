"""Networks that others wrote, imported: layers, multiply-accumulates beside PyTorch's own count, and links.

    python benchmarks/real_networks.py [NAME ...] [--onnx FILE ...] [--record FILE] [-o FILE]

Networks come from torchvision, timm, transformers, diffusers, ultralytics and segmentation_models_pytorch, as far as
these are installed, without weights; ONNX files from anywhere, their open axes set to 1 where they are batches and to
`OPEN` else. "counted" is `torch.utils.flop_counter` on the same module (products in fused kernels, which it leaves out,
added by `COUNTED`); "equal" compares it with the layers and what reads constants alone. "again" says whether the
network file gives the same network back. A name is one of the table's. `--record` keeps every network file, for tests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from provenance import add_output, heading, markdown, row
from torch.utils.flop_counter import FlopCounterMode

from fadiff_mapper import FadiffError, Workload, load_network, save_network
from fadiff_mapper.workload import coverage
from fadiff_mapper.workload.readers.network_text import network_text

OPEN = 320
"""Extent that an open axis of an ONNX input gets, other than the first."""

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A module, its positional and its keyword inputs."""


def _attended(query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Floating point operations of an attention kernel: both products."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _grouped(rows: Any, weights: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Floating point operations of the products of a mixture of experts."""
    return int(2 * math.prod(rows) * weights[-1])


COUNTED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attended, torch.ops.aten._grouped_mm: _grouped}
"""Kernels that PyTorch's counter leaves out -> the function that counts them."""


def vision(name: str, *shape: int, train: bool = False, **options: Any) -> Callable[[], Made]:
    """A network of torchvision."""
    def make() -> Made:
        module = import_module("torchvision.models").get_model(name, weights=None, **options)
        return module.train(train), (torch.empty(shape or (1, 3, 224, 224)),), {}
    return make


def image(name: str) -> Callable[[], Made]:
    """A network of timm, at its own input size."""
    def make() -> Made:
        module = import_module("timm").create_model(name, pretrained=False).eval()
        return module, (torch.empty(1, *module.default_cfg["input_size"]),), {}
    return make


def language(config: str, kind: str = "AutoModelForCausalLM", inputs: dict[str, tuple[int, ...]] | None = None,
             **options: Any) -> Callable[[], Made]:
    """A network of transformers from its configuration."""
    def make() -> Made:
        library = import_module("transformers")
        settings = getattr(library, config)(**options)
        factory = getattr(library, kind)
        module = (factory.from_config(settings) if kind.startswith("Auto") else factory(settings)).eval()
        given = {name: torch.zeros(shape, dtype=torch.long) if name.endswith("ids") else torch.empty(shape)
                 for name, shape in (inputs or {"input_ids": (1, 32)}).items()}
        return module, (), given
    return make


def segmentation(name: str) -> Callable[[], Made]:
    """A network of segmentation_models_pytorch on ResNet-18."""
    def make() -> Made:
        library = import_module("segmentation_models_pytorch")
        return getattr(library, name)("resnet18", encoder_weights=None).eval(), (torch.empty(1, 3, 256, 256),), {}
    return make


def detection(name: str) -> Callable[[], Made]:
    """A network of ultralytics; its module computes anchors while it is made, so it is made on the CPU."""
    def make() -> Made:
        tasks = import_module("ultralytics.nn.tasks")
        kind = tasks.SegmentationModel if name.endswith("seg") else tasks.DetectionModel
        with torch.device("cpu"):
            return kind(f"{name}.yaml", verbose=False).eval(), (torch.empty(1, 3, 320, 320, device="cpu"),), {}
    return make


def diffusion() -> Made:
    """A small U-Net of diffusers with cross-attention."""
    module = import_module("diffusers").UNet2DConditionModel(
        sample_size=32, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), norm_num_groups=8,
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")).eval()
    return module, (torch.empty(1, 4, 32, 32), torch.empty(1), torch.empty(1, 16, 32)), {}


SMALL: dict[str, Any] = {"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
                         "num_attention_heads": 8}
DECODER: dict[str, Any] = {**SMALL, "num_key_value_heads": 2, "use_cache": False}
EXPERTS: dict[str, Any] = {**DECODER, "num_local_experts": 8, "num_experts_per_tok": 2}
BOTH = {"input_ids": (1, 32), "decoder_input_ids": (1, 8)}
"""Tokens of an encoder and of a decoder."""

NETWORKS: dict[str, Callable[[], Made]] = {
    **{name: vision(name) for name in (
        "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "densenet121", "googlenet",
        "squeezenet1_0", "shufflenet_v2_x1_0", "mnasnet1_0", "vgg11", "convnext_tiny", "vit_b_16", "swin_t",
        "swin_v2_t", "maxvit_t")},
    "inception_v3": vision("inception_v3", 1, 3, 299, 299),
    "resnet18 in training": vision("resnet18", 2, 3, 64, 64, train=True),
    **{name: vision(name, 1, 3, 16, 112, 112) for name in ("r3d_18", "mc3_18", "r2plus1d_18")},
    **{name: vision(name, 1, 3, 16, 224, 224) for name in ("s3d", "mvit_v1_b", "swin3d_t")},
    "fcn_resnet50": vision("fcn_resnet50", weights_backbone=None),
    "deeplabv3": vision("deeplabv3_mobilenet_v3_large", weights_backbone=None),
    **{f"timm {name}": image(name) for name in (
        "mixer_b16_224", "convmixer_768_32", "coatnet_0_rw_224", "convnextv2_atto", "edgenext_xx_small",
        "efficientformer_l1", "ghostnet_100", "hrnet_w18_small", "levit_128s", "mobilevit_xxs", "pvt_v2_b0",
        "twins_pcpvt_small", "xcit_nano_12_p16_224", "volo_d1_224", "cait_xxs24_224", "davit_tiny",
        "focalnet_tiny_srf", "gcvit_xxtiny", "hiera_tiny_224", "lambda_resnet26t", "halonet26t", "botnet26t_256",
        "nfnet_l0", "resnest14d", "sequencer2d_s", "skresnet18", "mambaout_femto", "tiny_vit_5m_224",
        "convit_tiny", "gmlp_s16_224")},
    "BERT": language("BertConfig", "AutoModel", **SMALL),
    "DeBERTa v2": language("DebertaV2Config", "AutoModel", **SMALL),
    "GPT-2": language("GPT2Config", n_embd=128, n_layer=2, n_head=4, use_cache=False),
    "T5": language("T5Config", "AutoModel", BOTH, d_model=128, d_ff=256, num_layers=2, num_heads=4, use_cache=False),
    "BART": language("BartConfig", "AutoModel", BOTH, d_model=128, encoder_layers=2, decoder_layers=2, use_cache=False,
                     encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256),
    "Llama": language("LlamaConfig", **DECODER), "Qwen3": language("Qwen3Config", **DECODER, head_dim=16),
    "Gemma 2": language("Gemma2Config", **DECODER, head_dim=16),
    "Phi-3": language("Phi3Config", **DECODER, pad_token_id=0),
    "Mixtral": language("MixtralConfig", **EXPERTS),
    "DeepSeek V3": language(
        "DeepseekV3Config", **SMALL, num_key_value_heads=8, use_cache=False, n_routed_experts=8, num_experts_per_tok=2,
        moe_intermediate_size=64, first_k_dense_replace=1, n_group=2, topk_group=1, q_lora_rank=32, kv_lora_rank=32,
        qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16),
    "Mamba 2": language("Mamba2Config", hidden_size=64, num_hidden_layers=1, vocab_size=1000, state_size=16,
                        num_heads=8, head_dim=16, n_groups=2, chunk_size=16, use_cache=False),
    "DPT": language("DPTConfig", "DPTForDepthEstimation", {"pixel_values": (1, 3, 384, 384)}),
    "SegFormer": language("SegformerConfig", "SegformerForSemanticSegmentation", {"pixel_values": (1, 3, 256, 256)}),
    "Whisper": language("WhisperConfig", "AutoModel", {"input_features": (1, 80, 3000), "decoder_input_ids": (1, 8)},
                        d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                        decoder_attention_heads=4, use_cache=False),
    "wav2vec 2": language("Wav2Vec2Config", "AutoModel", {"input_values": (1, 16000)}, num_hidden_layers=2),
    "CLIP": language("CLIPConfig", "CLIPModel", {"input_ids": (1, 16), "pixel_values": (1, 3, 224, 224)}),
    **{f"ultralytics {name}": detection(name) for name in ("yolov8n", "yolov8n-seg", "yolo11n", "yolo12n")},
    **{f"smp {name}": segmentation(name) for name in ("Unet", "Linknet", "FPN", "MAnet", "UPerNet")},
    "U-Net of diffusers": diffusion,
}
"""Name in the table -> the function that makes a module and its inputs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--onnx", nargs="*", type=Path, default=[])
    parser.add_argument("--record", type=Path)
    add_output(parser)
    options = parser.parse_args()
    names = options.names or ([] if options.onnx else [name for name in NETWORKS if _installed(name)])
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
            recorded[str(name)] = {"counted": counted, "file": network_text(network)}
            if options.record:
                with gzip.GzipFile(options.record, "wb", mtime=0) as file:
                    file.write(json.dumps(recorded, sort_keys=True).encode())


def _installed(name: str) -> bool:
    """Whether the library of a network is there."""
    library = {"timm": "timm", "ultralytics": "ultralytics", "smp": "segmentation_models_pytorch",
               "U-Net": "diffusers"}.get(name.split(" ")[0], "torchvision" if name[0].islower() else "transformers")
    return find_spec(library) is not None


def traced(name: str) -> tuple[Workload, int | None]:
    """A network of the table, and its multiply-accumulates as PyTorch counts them."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        module, inputs, keywords = NETWORKS[name]()
        network = load_network(module, inputs, example_kwargs=keywords, name=name)
    with suppress(Exception):  # modules that look at values do not run on the meta device
        return network, counted(module, inputs, keywords)
    with suppress(Exception):
        return network, counted(*NETWORKS[name]())
    return network, None


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
