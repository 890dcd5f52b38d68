"""The sizes of widely used networks, each with its source: plain figures, nothing computed.

Mental model: one frozen value a network, of one of three kinds (decoder, encoder, vision). Everything that a
layer launches follows from these figures; see ``transformer.py`` and ``residual.py``. Figures are those of the model's
own configuration file or paper, named in ``source``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experts:
    """A mixture-of-experts feed-forward block: ``routed`` experts of ``hidden`` width, ``per_token`` of them for
    each token, beside ``shared`` experts that see every token. The first ``dense_layers`` layers have none."""

    routed: int
    per_token: int
    hidden: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: queries and keys pass through low-rank latents (widths ``query_rank`` and
    ``key_rank``); a head's key is ``plain_dim`` values of its own and ``rotary_dim`` that all heads share."""

    query_rank: int
    key_rank: int
    plain_dim: int
    rotary_dim: int
    value_dim: int


@dataclass(frozen=True)
class Decoder:
    """A decoder-only language model. ``hidden`` is the model's width, ``feed_forward`` the width of the gated
    block between, ``window`` the span of banded attention that every second layer uses (0: none)."""

    name: str
    source: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    experts: Experts | None = None
    latent: LatentAttention | None = None
    normalises_heads: bool = False
    window: int = 0


@dataclass(frozen=True)
class Encoder:
    """Bidirectional transformer layers with layer normalisation and GELU; ``tokens`` is the usual length.
    ``modulated``: each layer's normalisation is shifted and scaled by a projection of a condition. A network of
    ``decoder_layers`` has as many layers beside that attend to their own past and to the encoder's output.

    What comes before and after the layers, where there is such a thing: tables of ``positions`` and ``segments`` beside
    that of tokens; a ``pooled`` first token; a stem over ``mel_bins``; patches of ``patch_values`` with a time step of
    ``frequencies`` and a table of ``classes``."""

    name: str
    source: str
    layers: int
    hidden: int
    heads: int
    head_dim: int
    feed_forward: int
    tokens: int
    vocabulary: int = 0
    modulated: bool = False
    decoder_layers: int = 0
    positions: int = 0
    segments: int = 0
    pooled: bool = False
    mel_bins: int = 0
    patch_values: int = 0
    frequencies: int = 0
    classes: int = 0


@dataclass(frozen=True)
class Stage:
    """Bottleneck blocks of a residual network: 1 x 1, 3 x 3, 1 x 1 convolutions at ``size`` x ``size`` pixels;
    the first block's 3 x 3 moves in steps of ``stride``."""

    blocks: int
    size: int
    inner: int
    outer: int
    stride: int


@dataclass(frozen=True)
class Residual:
    """A convolutional residual network on ``image`` x ``image`` pixels of three colours."""

    name: str
    source: str
    image: int
    stem: int
    stages: tuple[Stage, ...]
    classes: int


_LLAMA = "Grattafiori et al., The Llama 3 Herd of Models (2024), table 3; vocabulary of 128,256"
_GPT_OSS = "OpenAI, gpt-oss-120b and gpt-oss-20b model card (2025), and their config.json"

CONFIGS: dict[str, Decoder | Encoder | Residual] = {
    config.name: config
    for config in (
        Decoder("llama3_8b", _LLAMA, 32, 4096, 32, 8, 128, 14_336, 128_256),
        Decoder("llama3_70b", _LLAMA, 80, 8192, 64, 8, 128, 28_672, 128_256),
        Decoder(
            "qwen2.5_7b",
            "Qwen2.5 technical report (2024) and Qwen2.5-7B config.json",
            28,
            3584,
            28,
            4,
            128,
            18_944,
            152_064,
        ),
        Decoder(
            "qwen3_8b",
            "Qwen3 technical report (2025) and Qwen3-8B config.json",
            36,
            4096,
            32,
            8,
            128,
            12_288,
            151_936,
            normalises_heads=True,
        ),
        Decoder(
            "qwen3_30b_a3b",
            "Qwen3 technical report (2025) and Qwen3-30B-A3B config.json",
            48,
            2048,
            32,
            4,
            128,
            6144,
            151_936,
            experts=Experts(128, 8, 768),
            normalises_heads=True,
        ),
        Decoder(
            "mixtral_8x7b",
            "Jiang et al., Mixtral of Experts (2024), table 1",
            32,
            4096,
            32,
            8,
            128,
            14_336,
            32_000,
            experts=Experts(8, 2, 14_336),
        ),
        Decoder(
            "deepseek_v3",
            "DeepSeek-V3 technical report (2024), section 4.2, and inference/configs/config_671B.json",
            61,
            7168,
            128,
            128,
            128,
            18_432,
            129_280,
            experts=Experts(256, 8, 2048, shared=1, dense_layers=3),
            latent=LatentAttention(query_rank=1536, key_rank=512, plain_dim=128, rotary_dim=64, value_dim=128),
        ),
        Decoder("gpt_oss_20b", _GPT_OSS, 24, 2880, 64, 8, 64, 2880, 201_088, experts=Experts(32, 4, 2880), window=128),
        Decoder(
            "gpt_oss_120b", _GPT_OSS, 36, 2880, 64, 8, 64, 2880, 201_088, experts=Experts(128, 4, 2880), window=128
        ),
        Encoder(
            "bert_base",
            "Devlin et al., BERT (2019), section 3; vocabulary of 30,522",
            12,
            768,
            12,
            64,
            3072,
            tokens=512,
            vocabulary=30_522,
            positions=512,
            segments=2,
            pooled=True,
        ),
        Encoder(
            "bert_large",
            "Devlin et al., BERT (2019), section 3; vocabulary of 30,522",
            24,
            1024,
            16,
            64,
            4096,
            tokens=512,
            vocabulary=30_522,
            positions=512,
            segments=2,
            pooled=True,
        ),
        Encoder(
            "dit_xl2_256",
            "Peebles and Xie, Scalable Diffusion Models with Transformers (2023), table 1: patches of "
            "2 x 2 on a 32 x 32 latent of 4 channels; appendix A: 256 frequencies; 1,000 classes and none",
            28,
            1152,
            16,
            72,
            4608,
            tokens=256,
            modulated=True,
            patch_values=16,
            frequencies=256,
            classes=1001,
        ),
        Encoder(
            "whisper_large_v3",
            "Radford et al., Robust Speech Recognition (2022), table 1, and whisper-large-v3's "
            "config.json: 128 mel bins, 1,500 audio positions, vocabulary of 51,866",
            32,
            1280,
            20,
            64,
            5120,
            tokens=1500,
            vocabulary=51_866,
            decoder_layers=32,
            mel_bins=128,
        ),
        Residual(
            "resnet50",
            "He et al., Deep Residual Learning for Image Recognition (2016), table 1; stride in the 3 x 3 "
            "as torchvision has it",
            224,
            64,
            stages=(
                Stage(3, 56, 64, 256, 1),
                Stage(4, 28, 128, 512, 2),
                Stage(6, 14, 256, 1024, 2),
                Stage(3, 7, 512, 2048, 2),
            ),
            classes=1000,
        ),
    )
}
