"""Networks of other packages, made from their configurations without weights: name -> a function that makes one.

torchvision, timm, transformers, x-transformers, diffusers, ultralytics and segmentation_models_pytorch, as far as they
are installed (`installed`). Networks of transformers, x-transformers and diffusers are small: few layers, narrow, all
kinds of operators.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A module, its positional and its keyword inputs."""


def vision(name: str, *shape: int, train: bool = False, **options: Any) -> Callable[[], Made]:
    """A network of torchvision; RegNets compute with their sizes as tensors, so these are made on the CPU."""
    def make() -> Made:
        device = "cpu" if name.startswith("regnet") else torch.get_default_device()
        with torch.device(device):
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
                 for name, shape in (inputs or TOKENS).items()}
        return module, (), given
    return make


def segmentation(name: str, encoder: str = "resnet18") -> Callable[[], Made]:
    """A network of segmentation_models_pytorch on an encoder."""
    def make() -> Made:
        library = import_module("segmentation_models_pytorch")
        return getattr(library, name)(encoder, encoder_weights=None).eval(), (torch.empty(1, 3, 256, 256),), {}
    return make


def detection(name: str) -> Callable[[], Made]:
    """A network of ultralytics; its module computes anchors while it is made, so it is made on the CPU."""
    def make() -> Made:
        kinds = {"seg": "Segmentation", "pose": "Pose", "obb": "OBB", "cls": "Classification", "l": "RTDETRDetection"}
        tasks = import_module("ultralytics.nn.tasks")
        kind = getattr(tasks, kinds.get(name.rpartition("-")[2], "Detection") + "Model")
        with torch.device("cpu"):
            return kind(f"{name}.yaml", verbose=False).eval(), (torch.empty(1, 3, 320, 320, device="cpu"),), {}
    return make


def diffusion(name: str, *shapes: tuple[int, ...], keywords: dict[str, tuple[int, ...]] | None = None,
              **options: Any) -> Callable[[], Made]:
    """A network of diffusers."""
    def make() -> Made:
        module = getattr(import_module("diffusers"), name)(**options).eval()
        given = {word: torch.zeros(shape, dtype=torch.long) if word.endswith("labels") else torch.empty(shape)
                 for word, shape in (keywords or {}).items()}
        return module, tuple(torch.empty(shape) for shape in shapes), given
    return make


def attention(layers: str, **options: Any) -> Callable[[], Made]:
    """Tokens through `layers` of x-transformers ("Encoder" or "Decoder")."""
    def make() -> Made:
        library = import_module("x_transformers")
        stack = getattr(library, layers)(dim=128, depth=2, heads=8, **options)
        module = library.TransformerWrapper(num_tokens=1000, max_seq_len=64, attn_layers=stack).eval()
        return module, (torch.zeros((1, 32), dtype=torch.long),), {}
    return make


def attention_of_patches() -> Made:
    """A vision transformer of x-transformers."""
    library = import_module("x_transformers")
    stack = library.Encoder(dim=128, depth=2, heads=8)
    module = library.ViTransformerWrapper(image_size=64, patch_size=16, num_classes=10, attn_layers=stack).eval()
    return module, (torch.empty(1, 3, 64, 64),), {}


def attention_across() -> Made:
    """An encoder and a decoder of x-transformers, with rotary positions on both sides."""
    sides = {f"{side}_{option}": value for side in ("enc", "dec") for option, value in {
        "num_tokens": 1000, "depth": 2, "heads": 8, "max_seq_len": 64, "rotary_pos_emb": True}.items()}
    module = import_module("x_transformers").XTransformer(dim=128, **sides).eval()
    return module, (torch.zeros((1, 32), dtype=torch.long), torch.zeros((1, 16), dtype=torch.long)), {}


SMALL: dict[str, Any] = {"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
                         "num_attention_heads": 8}
DECODER: dict[str, Any] = {**SMALL, "num_key_value_heads": 2, "use_cache": False}
EXPERTS: dict[str, Any] = {**DECODER, "num_local_experts": 8, "num_experts_per_tok": 2}
TOKENS = {"input_ids": (1, 32)}
IMAGE = {"pixel_values": (1, 3, 224, 224)}
LESS = {"pixel_values": (1, 3, 256, 256)}
SOUND = {"input_values": (1, 16000)}
SERIES = {"past_values": (1, 64, 4)}
BOTH = {"input_ids": (1, 32), "decoder_input_ids": (1, 8)}
"""Tokens of an encoder and of a decoder."""

TWO_SIDED: dict[str, Any] = {
    "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "use_cache": False,
    "vocab_size": 1000, "pad_token_id": 0}
MIXED: dict[str, Any] = {**DECODER, "num_experts": 8, "num_experts_per_tok": 2}
TWO: dict[str, Any] = {"num_hidden_layers": 2}
HEADS: dict[str, Any] = {"num_layers": 2, "num_attention_heads": 4, "attention_head_dim": 16}
SLIM: dict[str, Any] = {"vocab_size": 1000, "n_layer": 2, "n_head": 8, "use_cache": False}

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
    "U-Net of diffusers": diffusion(
        "UNet2DConditionModel", (1, 4, 32, 32), (1,), (1, 16, 32), sample_size=32, block_out_channels=(32, 64),
        layers_per_block=1, cross_attention_dim=32, attention_head_dim=8, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")),
    **{name: vision(name) for name in (
        "alexnet", "vgg16_bn", "wide_resnet50_2", "efficientnet_v2_s", "convnext_small", "densenet169", "mnasnet0_5",
        "shufflenet_v2_x0_5", "squeezenet1_1", "vit_l_32", "swin_v2_s", "regnet_y_400mf", "regnet_x_400mf")},
    "mvit_v2_s": vision("mvit_v2_s", 1, 3, 16, 224, 224),
    "deeplabv3_resnet50": vision("deeplabv3_resnet50", weights_backbone=None),
    **{f"timm {name}": image(name) for name in (
        "resnet50d", "seresnet50", "ecaresnet26t", "gcresnet33ts", "resnetv2_50", "skresnext50_32x4d", "mixnet_s",
        "fbnetc_100", "hardcorenas_a", "tinynet_a", "mobileone_s1", "fastvit_sa12", "efficientvit_m0",
        "efficientvit_b1", "cs3se_edgenet_x", "darknet53", "vovnet39a", "inception_v4", "inception_resnet_v2",
        "xception65", "regnety_004", "regnetz_b16", "repghostnet_050", "deit3_small_patch16_224",
        "swinv2_cr_tiny_224", "maxxvit_rmlp_nano_rw_256", "convformer_s18", "caformer_s18", "mvitv2_tiny",
        "edgenext_small", "rdnet_tiny", "ghostnetv2_100", "lcnet_050", "eva02_small_patch14_224",
        "vit_relpos_small_patch16_224", "flexivit_small", "coat_tiny", "crossvit_9_240", "convit_small",
        "visformer_small", "beitv2_base_patch16_224", "mambaout_tiny", "hgnet_tiny", "hgnetv2_b0",
        "mobilenet_edgetpu_v2_xs", "starnet_s2", "swiftformer_xs", "csatv2")},
    **{name: language(f"{name}Config", **options) for name, options in {
        "GPTNeoX": {**SMALL, "use_cache": False}, "Phi": {**SMALL, "use_cache": False}, "StableLm": DECODER,
        "Exaone4": DECODER, "Nemotron": {**DECODER, "head_dim": 16}, "RecurrentGemma": {**DECODER, "lru_width": 128},
        "Bloom": {**SLIM, "hidden_size": 128}, "CodeGen": {**SLIM, "n_embd": 128, "rotary_dim": 8},
        "GPTJ": {**SLIM, "n_embd": 128, "rotary_dim": 8},
        "Mpt": {"vocab_size": 1000, "d_model": 128, "n_layers": 2, "n_heads": 8, "use_cache": False},
        "Falcon": {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8,
                   "use_cache": False},
        "FalconMamba": {"hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 1000, "state_size": 8,
                        "use_cache": False},
        "Olmoe": MIXED, "GraniteMoe": EXPERTS,
        "Qwen2Moe": {**MIXED, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64},
        "Llama4Text": {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 1, "head_dim": 16,
                       "intermediate_size_mlp": 256, "pad_token_id": 0},
        "Gemma3nText": {**DECODER, "head_dim": 16, "vocab_size_per_layer_input": 1000, "num_kv_shared_layers": 0,
                        "hidden_size_per_layer_input": 16, "pad_token_id": 0},
        "Qwen3Next": {**MIXED, "head_dim": 16, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
                      "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
                      "linear_value_head_dim": 16}}.items()},
    "OPT": language("OPTConfig", vocab_size=1000, hidden_size=128, ffn_dim=256, num_hidden_layers=2,
                    num_attention_heads=8, word_embed_proj_dim=128, use_cache=False),
    **{name: language(f"{name}Config", "AutoModel", **options) for name, options in {
        "Roberta": {**SMALL, "pad_token_id": 1}, "Electra": {**SMALL, "embedding_size": 64},
        "Albert": {**SMALL, "embedding_size": 64}, "ModernBert": {**SMALL, "pad_token_id": 0},
        "XLNet": {"vocab_size": 1000, "d_model": 128, "n_layer": 2, "n_head": 8, "d_inner": 256},
        "MobileBert": {**TWO, "vocab_size": 1000}, "SqueezeBert": {**SMALL, "embedding_size": 128},
        "RoFormer": {**SMALL, "embedding_size": 128},
        "FNet": {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256}}.items()},
    **{name: language(f"{name}Config", "AutoModel", BOTH, **TWO_SIDED) for name in ("Pegasus", "Marian", "M2M100")},
    **{name: language(f"{name}Config", "AutoModel", IMAGE, **TWO) for name in (
        "DeiT", "Beit", "DINOv3ViT", "ViTMAE", "Data2VecVision", "VitDet", "IJepa", "Dinov2WithRegisters")},
    **{name: language(f"{name}Config", "AutoModel", IMAGE) for name in (
        "Swinv2", "ConvNextV2", "PoolFormer", "Cvt", "EfficientNet", "RegNet", "Bit", "FocalNet", "DINOv3ConvNext",
        "Hiera", "Pvt", "Swin")},
    **{name: language(f"{name}Config", "AutoModel", LESS) for name in ("MobileViTV2", "GLPN")},
    "Yolos": language("YolosConfig", "AutoModel", LESS, **TWO, image_size=[256, 256]),
    **{name: language(f"{name}Config", f"{name}Model", IMAGE, **TWO) for name in ("SiglipVision", "CLIPVision")},
    **{name: language(f"{name}Config", "AutoModel", SOUND, **TWO) for name in (
        "Hubert", "WavLM", "Wav2Vec2Conformer", "SEW")},
    "AST": language("ASTConfig", "AutoModel", {"input_values": (1, 1024, 128)}, **TWO),
    **{name: language(f"{name}Config", "AutoModel", {"pixel_values": (1, frames, 3, 224, 224)}, **TWO)
       for name, frames in (("Timesformer", 8), ("VideoMAE", 16), ("Vivit", 32))},
    **{name: language(f"{name}Config", "AutoModel", SERIES, num_input_channels=4, context_length=64)
       for name in ("PatchTST", "PatchTSMixer")},
    **{f"ultralytics {name}": detection(name) for name in (
        "yolov3-tiny", "yolov5n", "yolov6n", "yolov9t", "yolov10n", "yolo11n-pose", "yolo11n-obb", "yolo11n-cls",
        "rtdetr-l")},
    **{f"smp {name} on {encoder}": segmentation(name, encoder) for name, encoder in (
        *((name, "mobilenet_v2") for name in ("Unet", "UnetPlusPlus", "DeepLabV3", "PSPNet", "PAN", "Segformer")),
        ("Unet", "timm-efficientnet-b0"))},
    **{f"diffusers {name}": diffusion(name, *shapes, keywords=keywords, **options)
       for name, (shapes, keywords, options) in {
        "UNet2DModel": ([(1, 3, 32, 32), (1,)], {}, {
            "sample_size": 32, "block_out_channels": (32, 64, 64, 64), "norm_num_groups": 8, "attention_head_dim": 8}),
        "DiTTransformer2DModel": ([(1, 4, 32, 32), (1,)], {"class_labels": (1,)}, HEADS),
        "SD3Transformer2DModel": ([(1, 16, 32, 32), (1, 16, 64), (1, 32), (1,)], {}, {
            **HEADS, "sample_size": 32, "joint_attention_dim": 64, "caption_projection_dim": 64,
            "pooled_projection_dim": 32}),
        "FluxTransformer2DModel": ([(1, 64, 64)], {
            "encoder_hidden_states": (1, 16, 64), "pooled_projections": (1, 32), "timestep": (1,), "img_ids": (64, 3),
            "txt_ids": (16, 3)}, {
            **HEADS, "num_layers": 1, "num_single_layers": 1, "joint_attention_dim": 64, "pooled_projection_dim": 32,
            "axes_dims_rope": (4, 6, 6), "guidance_embeds": False}),
        "PixArtTransformer2DModel": ([(1, 4, 32, 32), (1, 16, 64), (1,)], {}, {
            **HEADS, "num_layers": 1, "cross_attention_dim": 64, "caption_channels": 64, "sample_size": 32}),
        "UNet1DModel": ([(1, 2, 1024), (1,)], {}, {"sample_size": 1024, "extra_in_channels": 64}),
        "VQModel": ([(1, 3, 64, 64)], {}, {"block_out_channels": (32,), "norm_num_groups": 8}),
        "AutoencoderKLTemporalDecoder": ([(2, 3, 64, 64)], {}, {
            "block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2}),
        "SanaTransformer2DModel": ([(1, 4, 16, 16), (1, 16, 64), (1,)], {}, {
            **HEADS, "in_channels": 4, "out_channels": 4, "num_layers": 1, "num_cross_attention_heads": 4,
            "cross_attention_head_dim": 16, "cross_attention_dim": 64, "caption_channels": 64, "sample_size": 16}),
       }.items()},
    **{f"x-transformers {name}": attention(layers, **options) for name, (layers, options) in {
        "encoder": ("Encoder", {}), "decoder": ("Decoder", {}),
        "rotary decoder, SwiGLU, RMSNorm": ("Decoder", {
            "rotary_pos_emb": True, "ff_glu": True, "ff_swish": True, "ff_no_bias": True, "use_rmsnorm": True}),
        "GQA decoder": ("Decoder", {"attn_kv_heads": 2, "rotary_pos_emb": True}),
        "GQA decoder, fused kernel": ("Decoder", {"attn_kv_heads": 2, "rotary_pos_emb": True, "attn_flash": True}),
        "MQA decoder, ALiBi": ("Decoder", {"attn_one_kv_head": True, "alibi_pos_bias": True}),
        "talking heads, QK norm": ("Decoder", {
            "attn_pre_talking_heads": True, "attn_post_talking_heads": True, "attn_qk_norm": True,
            "rel_pos_bias": True}),
        "sandwich norm, gated values": ("Encoder", {
            "sandwich_norm": True, "attn_gate_values": True, "attn_num_mem_kv": 4, "macaron": True}),
       }.items()},
    "x-transformers ViT": attention_of_patches, "x-transformers encoder and decoder": attention_across,
}
"""Name in the table -> the function that makes a module and its inputs."""


def installed(name: str) -> bool:
    """Whether the library of a network is there."""
    library = {"timm": "timm", "ultralytics": "ultralytics", "smp": "segmentation_models_pytorch",
               "U-Net": "diffusers", "diffusers": "diffusers", "x-transformers": "x_transformers"}.get(
        name.split(" ")[0], "torchvision" if name[0].islower() else "transformers")
    return find_spec(library) is not None
