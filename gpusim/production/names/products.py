"""Matrix products and convolutions: the names that cuBLAS, cuBLASLt, cuDNN, CUTLASS and TensorRT give their kernels.

Mental model: such a name is words joined by underscores, each with one meaning:
``sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_ tilesize128x128x32_stage4_...``,
``cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_tn_align8``, ``ampere_sgemm_128x64_tn``,
``nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT``. Read by position within their kind.

Sources: CUTLASS's names: its library generator, ``procedural_name`` in ``python/cutlass_library/gemm_operation.py``
(4.x). The others are documented nowhere; they are read as profiles published by their users show them. nvjet's letters
are a guess from such profiles: bf16 products are ``tst``, fp16 ones ``hsh``, fp8 ones ``qqtst``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.split import SplitName
from gpusim.production.names.types import BLAS, SHORT, pair_of

_CHIPS = {
    "kepler": "sm35", "maxwell": "sm50", "pascal": "sm60", "volta": "sm70", "turing": "sm75", "ampere": "sm80", "ada": "sm89",
    "hopper": "sm90", "blackwell": "sm100",
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})(?:x(\d{1,5}))?$")
_BLAS = re.compile(
    r"([a-z]{0,2}?)(\d{3,6}|\d{1,4}x\d{1,4}x\d{1,4})?(tf32|bf16|f16)?(?:fast)?(gemm|syrk|symm|trmm|trsm|herk|hemm|cudnn|fprop|dgrad|wgrad)\w*$"
)
_LAYOUTS = frozenset(["nn", "nt", "tn", "tt", "nc", "cn", "tc", "ct", "cc"])
_NVJET = {"h": "fp16", "t": "bf16", "s": "fp32", "d": "fp64", "q": "fp8_e4m3", "r": "fp8_e5m2", "o": "fp4_e2m1"}
_MOST_WORDS = 64


def product(split: SplitName) -> KernelName | None:
    """The kernel, where its name is one of these."""
    for text in _candidates(split):
        words = text.split("_", _MOST_WORDS)[:_MOST_WORDS]
        found = None
        if words[0] == "nvjet":
            found = _nvjet(words)
        elif "xmma" in words[:3]:
            found = _xmma(words)
        elif words[0].startswith("cutlass") and len(words) > 3:
            found = _cutlass(words, split)
        elif words[0] == "bmm" and len(words) > 4:
            found = _trtllm(words)
        elif set(words[:4]) & _CHIPS.keys():
            found = _blas(words)
        if found is not None:
            return found
    return None


def _candidates(split: SplitName) -> Sequence[str]:
    """The function itself, or what a wrapper (``cutlass::Kernel<NAME>``) names first."""
    wrapped = [word for word in split.words[:1] if split.function in ("Kernel", "Kernel2", "device_kernel")]
    return [text for text in (*wrapped, split.function) if text]


def size_of(word: str) -> str | None:
    """``128x64`` or ``128x64x32`` as it stands, where a word is a size."""
    return word if _SIZE.match(word) else None


def _nvjet(words: list[str]) -> KernelName:
    rest = words[1:]
    architecture = rest.pop(0) if rest and rest[0].startswith("sm") and rest[0][2:].isdigit() else UNKNOWN
    letters = rest.pop(0) if rest else ""
    sizes = [word for word in rest if size_of(word)]
    tile, depth = (sizes[0] if sizes else UNKNOWN), (sizes[1] if len(sizes) > 1 else "")
    k, _, stages = depth.partition("x")
    cluster = next((word for word in sizes[2:] if word.count("x") == 1), UNKNOWN)
    if tile.count("x") == 2:  # sm120 writes MxNxK_stages
        place = rest.index(tile)
        stages = rest[place + 1] if place + 1 < len(rest) and rest[place + 1].isdigit() else ""
        k, cluster = "", UNKNOWN
    layout = next((word.lower() for word in reversed(rest) if len(word) >= 2 and not word.strip("NTC")), UNKNOWN)
    middle = letters[-2:-1]
    return KernelName(
        "matrix_product", "gemm_split_k" if "splitK" in rest else "gemm", "cublas",
        dtype=_NVJET.get(letters[:1], UNKNOWN), accumulator=_NVJET.get(middle, UNKNOWN) if len(letters) >= 3 else UNKNOWN,
        tile=f"{tile}x{k}" if k.isdigit() and tile != UNKNOWN else tile, stages=stages if stages.isdigit() else UNKNOWN,
        cluster=cluster, architecture="sm90" if architecture == UNKNOWN else architecture, layout=layout, unit="tensor core",
        function="nvjet",
    )  # fmt: skip


def _xmma(words: list[str]) -> KernelName:
    place = words.index("xmma")
    kind = words[place + 1] if place + 1 < len(words) else ""
    family, operation = ("matrix_product", kind) if kind.startswith(("gemm", "sparse")) else ("convolution", kind)
    types, tile, stages, unit, layout, cluster = [], UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
    for at, word in enumerate(words[place + 2 :], place + 2):
        types += (pair_of(word) or ()) if len(types) < 4 else ()
        if word.startswith("tilesize"):
            tile = size_of(word[8:]) or UNKNOWN
        elif word.startswith("stage") and word[5:].isdigit():
            stages = word[5:]
        elif word.startswith(("tensor", "warpgroupsize")):
            unit = "tensor core"
        elif word == "ffma":
            unit = "simt"
        elif word.startswith("cga") or word.startswith("cluster"):
            cluster = size_of(word.lstrip("clusterga")) or UNKNOWN
        elif word in _LAYOUTS and layout == UNKNOWN:
            layout = word
        elif word.startswith("nhwckrsc") or word.startswith("nchwkcrs"):
            layout = "_".join(words[at : at + 2])
    library = "tensorrt" if words[-1] == "trt" or words[0] == "trt" else "cudnn" if "cudnn" in words else "cublas"
    if library == "cublas" and family == "convolution":
        library = "cudnn"
    if "split" in words[place + 2 :] or "segment" in words and "off" not in words:
        operation += "_split_k"
    return KernelName(
        family, operation or UNKNOWN, library, dtype=types[0] if types else UNKNOWN,
        accumulator=types[3] if len(types) > 3 else UNKNOWN, tile=tile, stages=stages, cluster=cluster,
        architecture=words[0] if words[0].startswith("sm") else UNKNOWN, layout=layout, unit=unit, function=f"xmma_{kind}",
    )  # fmt: skip


def _cutlass(words: list[str], split: SplitName) -> KernelName | None:
    names = [(word, match) for word in words if (match := _BLAS.match(word)) and match[4] != "cudnn"]
    if not names:
        return None
    word, match = names[0]
    at = words.index(word)
    convolution = match[4] in ("fprop", "dgrad", "wgrad")
    before = [SHORT[each] for each in words[1:at] if each in SHORT]
    after = [SHORT[each] for each in words[at + 1 : at + 8] if each in SHORT]
    dtype = (after or before or [UNKNOWN])[0]
    accumulator = BLAS.get(match[1] or "", UNKNOWN)
    if match[3]:  # the multiplication's type is named where it is not the operands'
        dtype = SHORT[match[3]]
    elif dtype == UNKNOWN and "simt" in words:
        dtype = accumulator
    elif dtype == UNKNOWN and match[2] in (
        "1688",
        "884",
    ):  # of m16n8k8 only TF32's has operands of 32 bits, which go unnamed
        dtype = {"d": "fp64", "s": "tf32"}.get(match[1] or "", UNKNOWN)
    sizes = [each for each in words[at + 1 :] if size_of(each)]
    tile, stages, cluster = _cutlass_sizes(sizes)
    architecture = next((f"sm{each}" for each in words[1:3] if each.isdigit()), UNKNOWN)
    if architecture == UNKNOWN and words[0][7:].isdigit():
        architecture = f"sm{words[0][7:]}"  # cutlass3x_sm90 writes it as a word of its own
    architecture = next((each for each in words[1:3] if each.startswith("sm") and each[2:].isdigit()), architecture)
    unit = "tensor core" if "tensorop" in words or "3x" in words[0] else "simt" if "simt" in words else UNKNOWN
    library = "cudnn" if "cudnn" in split.scope or convolution else "cublas" if split.scope == "cutlass" else "cutlass"
    return KernelName(
        "convolution" if convolution else "matrix_product", match[4], library, dtype=dtype, accumulator=accumulator, tile=tile,
        stages=stages, cluster=cluster, architecture=architecture,
        layout=next((each for each in words[at + 1 :] if each in _LAYOUTS or each in ("nhwc", "nchw", "ndhwc")
                     or (len(each) == 3 and not each.strip("ntc"))), UNKNOWN),
        unit=unit, function="cutlass_" + match[4],
    )  # fmt: skip


def _cutlass_sizes(sizes: list[str]) -> tuple[str, str, str]:
    """Tile, stages and cluster of ``256x128_32x3`` (CUTLASS 2) or ``128x128x64_2x1x1`` (CUTLASS 3)."""
    if not sizes:
        return UNKNOWN, UNKNOWN, UNKNOWN
    if sizes[0].count("x") == 2:
        return sizes[0], UNKNOWN, next((each for each in sizes[1:] if each.count("x") == 2), UNKNOWN)
    if len(sizes) < 2:
        return sizes[0], UNKNOWN, UNKNOWN
    k, _, stages = sizes[1].partition("x")
    return f"{sizes[0]}x{k}", stages, UNKNOWN


def _trtllm(words: list[str]) -> KernelName:
    """``bmm_E4m3_E4m3E4m3_Fp32_t128x64x128u2_s6_...``: TensorRT-LLM's generated products: output, operands, sum, tile,
    stages."""
    operands = pair_of(words[2].lower()) or (SHORT.get(words[2].lower(), UNKNOWN),)
    tile = next(
        (
            size_of(word[1:].partition("u")[0])
            for word in words[4:]
            if word[:1] == "t" and size_of(word[1:].partition("u")[0])
        ),
        None,
    )
    stages = next((word[1:] for word in words[4:] if word[:1] == "s" and word[1:].isdigit()), UNKNOWN)
    return KernelName(
        "matrix_product", "bmm", "tensorrt_llm", dtype=operands[0], accumulator=SHORT.get(words[3].lower(), UNKNOWN),
        tile=tile or UNKNOWN, stages=stages, unit="tensor core", function="bmm",
        architecture=next((word.lower() for word in words if word.startswith("sm1") or word.startswith("sm9")), UNKNOWN),
    )  # fmt: skip


def _blas(words: list[str]) -> KernelName | None:
    chip = next(word for word in words[:4] if word in _CHIPS)
    found = next(((at, match) for at, word in enumerate(words) if (match := _BLAS.match(word)) is not None), None)
    if found is None:
        return None
    at, match = found
    convolution = match[4] == "cudnn" or "cudnn" in words
    before = [SHORT[each] for each in words[:at] if each in SHORT]
    letter = BLAS.get(match[1] or "", UNKNOWN)
    sizes = [word for word in words[at + 1 :] if size_of(word)]
    depth = words[words.index("stages") + 1] if "stages" in words[:-1] else ""
    k, _, stages = depth.partition("x")
    tile = sizes[0] if sizes else UNKNOWN
    return KernelName(
        "convolution" if convolution else "matrix_product", "convolution" if convolution else match[4],
        "cudnn" if convolution else "tensorrt" if words[0] == "trt" else "cublas", dtype=before[0] if before else letter,
        accumulator=letter, tile=f"{tile}x{k}" if stages.isdigit() and tile != UNKNOWN else tile,
        stages=stages if stages.isdigit() else UNKNOWN, architecture=_CHIPS[chip],
        layout=next((word for word in words[at + 1 :] if word in _LAYOUTS), UNKNOWN),
        unit="tensor core" if match[2] else "simt", function=f"{chip}_{words[at]}",
    )  # fmt: skip
