"""Kernels that are templates of CUTLASS: what their arguments say of products, convolutions and attention.

Mental model: CUTLASS 2 gives a kernel's tile as ``GemmShape<128, 128, 32>`` (the block's comes before the warp's) and
says in a class name what it does; CUTLASS 3 gives ``tuple<C<128>, C<128>, C<64>>`` after a main loop whose name has the
architecture and whose policy has stages and cluster. In mangled symbols a size that stood there before is abbreviated:
then the tile is unknown.

Sources: ``cutlass/gemm/kernel``, ``cutlass/gemm/dispatch_policy.hpp``, ``cutlass/conv/kernel`` (CUTLASS 2.11 and 3.x);
FlashAttention's ``csrc/flash_attn/src/kernel_traits.h`` and ``hopper/flash_fwd_kernel_sm90.h``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.products import size_of
from gpusim.production.names.split import SplitName
from gpusim.production.names.types import SHORT, WORDS, type_of

_ARCHITECTURE = re.compile(r"Sm(\d{2,3})")
_WRAPPERS = ("Kernel", "Kernel2", "device_kernel")


def template(split: SplitName) -> KernelName | None:
    """The kernel, where it is such a template."""
    if split.function in _WRAPPERS and ("cutlass" in split.scope or split.scope in ("", "flash")):
        return _attention(split) or _convolution(split) or _product(split)
    if split.function.startswith(("flash_fwd", "flash_bwd")) or split.scope == "flash":
        return _flash(split)
    if split.function.startswith(
        ("attention_kernel_batched_impl", "attention_kernel_backward_batched", "fmha_cutlass")
    ):
        return _efficient(split)
    return None


def _attention(split: SplitName) -> KernelName | None:
    named = next((word for word in split.words if "FlashAttn" in word or "Fmha" in word or "Attention" in word), "")
    if not named and "fmha" not in split.words and not {"flash", "Flash"} & set(split.words[:4]):
        return None
    words = split.words
    backward = "_backward" if "Bwd" in named else ""
    operation = "flash_combine" if "Combine" in named else f"flash{backward or '_forward'}"
    flash = "flash" in words or "FlashAttn" in named
    tile, sizes = UNKNOWN, _tuples(words)
    if flash and len(sizes) > 1:
        tile = "x".join(sizes[1])  # the first is the cluster
    return KernelName(
        "attention", operation, "flash_attention" if flash else "cutlass", dtype=type_of(words), tile=tile,
        stages=_stages(words, named), cluster="x".join(sizes[0]) if flash and len(sizes) > 1 else UNKNOWN,
        architecture=_architecture(words), unit="tensor core", function=named or split.function,
    )  # fmt: skip


def _flash(split: SplitName) -> KernelName:
    """FlashAttention 2: ``Flash_fwd_kernel_traits<head dimension, block M, block N, warps, ..., element>``."""
    function, words = split.function, split.words
    numbers: list[str] = []
    for at, word in enumerate(words):
        if word.endswith("kernel_traits"):
            numbers = [each for each in words[at + 1 : at + 8] if each not in ("int", "ulong")][:4]
            break
    sizes = [each for each in numbers if each.isdigit()]
    parts = function.removesuffix("_kernel").removeprefix("flash_")
    operation = {"fwd": "flash_forward", "fwd_splitkv": "flash_split_kv", "fwd_splitkv_combine": "flash_combine"}.get(
        parts, "flash_backward" if "bwd" in parts else "flash_forward"
    )
    if "splitkv_mla" in parts or "mla" in function.lower():
        operation = "flash_mla"
    return KernelName(
        "attention", operation, "flash_attention", dtype=type_of(words),
        tile="x".join((*sizes[1:3], sizes[0])) if len(sizes) > 2 else UNKNOWN, architecture=_architecture(words),
        unit="tensor core" if parts == "fwd" or parts[4:] == "splitkv" else UNKNOWN, function=function,
    )  # fmt: skip


def _efficient(split: SplitName) -> KernelName:
    """xFormers' and PyTorch's memory-efficient attention: ``AttentionKernel<half_t, Sm80, true, 64, 64, 128, ...>``."""
    words, parts = split.words or split.parameters, split.function.split("_", 12)
    sizes = [word for word in words if word.isdigit()][:2]
    backward = "backward" in split.function or "cutlassB" in parts
    named = next((size_of(part) for part in parts if size_of(part)), None)
    dtype = type_of(words)
    architecture = next((part for part in parts if part.startswith("sm") and part[2:].isdigit()), _architecture(words))
    return KernelName(
        "attention", "efficient_backward" if backward else "efficient_forward", "cutlass",
        dtype=next((SHORT[part] for part in parts if part in SHORT), dtype), architecture=architecture,
        tile=named or ("x".join(sizes) if len(sizes) == 2 else UNKNOWN), function=split.function,
    )  # fmt: skip


def _convolution(split: SplitName) -> KernelName | None:
    named = next((word for word in split.words if "Convolution" in word or "ConvUniversal" in word), "")
    if not named:
        return None
    kind = next(
        (kind for kind in ("Wgrad", "Dgrad", "Fprop", "Deconv") if any(kind in word for word in split.words)), ""
    )
    return KernelName(
        "convolution", kind.lower() or UNKNOWN, "cudnn" if "cudnn" in split.scope else "cutlass", dtype=type_of(split.words),
        tile=_shape(split.words), architecture=_architecture(split.words), layout="nhwc" if "TensorNHWC" in split.words else UNKNOWN,
        unit=_unit(split.words), function=named,
    )  # fmt: skip


def _product(split: SplitName) -> KernelName:
    words = split.words
    named = next(
        (word for word in words if word.startswith(("Gemm", "SparseGemm", "ReduceSplitK", "Gemv", "Syrk", "Trmm"))), ""
    )
    if not named or named == "GemmShape":
        named = next((word for word in words if "Gemm" in word and word != "GemmShape"), named)
    if named.startswith("ReduceSplitK"):
        return KernelName("matrix_product", "split_k_reduce", "cutlass" if "cudnn" not in split.scope else "cudnn",
                          dtype=type_of(words), function=named)  # fmt: skip
    known = bool(named) or "GemmShape" in words or any(word.startswith("MainloopSm") for word in words)
    if not known:
        return KernelName(library="cutlass", dtype=type_of(words), function=split.function)
    grouped = "grouped_" if any("Group" in word for word in words[:16]) else ""
    mainloop = next((at for at, word in enumerate(words) if word.startswith("MainloopSm")), -1)
    tile, stages, cluster = _shape(words), UNKNOWN, UNKNOWN
    if mainloop >= 0:
        stages = (
            words[mainloop + 1] if words[mainloop + 1 : mainloop + 2] and words[mainloop + 1].isdigit() else UNKNOWN
        )
        sizes = _tuples(words[mainloop:])
        cluster = "x".join(sizes[0]) if sizes else UNKNOWN
        tile = "x".join(sizes[1]) if len(sizes) > 1 else UNKNOWN
    return KernelName(
        "mixture_of_experts" if "MoEProblemShape" in words[:16] else "matrix_product", f"{grouped}gemm" if "Gemv" not in named else "gemv", "cutlass", dtype=type_of(_types_of(words, mainloop)),
        tile=tile, stages=stages, cluster=cluster, architecture=_architecture(words), unit=_unit(words), function=named or "Gemm",
    )  # fmt: skip


def _types_of(words: Sequence[str], mainloop: int) -> Sequence[str]:
    """Where the operands' types stand: in CUTLASS 3 behind the main loop's policy."""
    return words[mainloop:] if mainloop >= 0 else [word for word in words if word in WORDS or word[:1].islower()]


def _tuples(words: Sequence[str]) -> list[list[str]]:
    """Each complete ``tuple<C<a>, C<b>, C<c>>`` in order, at most four."""
    found = []
    for at, word in enumerate(words):
        if word == "tuple" and len(found) < 4:
            inside = [each for each in words[at + 1 : at + 12] if each not in ("cute", "int")]
            if inside[:6:2] == ["C", "C", "C"] and all(each.isdigit() for each in inside[1:6:2]):
                found.append(inside[1:6:2])
    return found


def _shape(words: Sequence[str]) -> str:
    at = next((at for at, word in enumerate(words) if word == "GemmShape"), None)
    sizes = [] if at is None else [word for word in words[at + 1 : at + 7] if word != "int"][:3]
    return "x".join(sizes) if len(sizes) == 3 and all(size.isdigit() for size in sizes) else UNKNOWN


def _stages(words: Sequence[str], named: str) -> str:
    at = next((at for at, word in enumerate(words) if word.startswith("CollectiveMainloop")), None)
    after = "" if at is None else words[at + 1] if at + 1 < len(words) else ""
    return after if named and after.isdigit() else UNKNOWN


def _architecture(words: Sequence[str]) -> str:
    found = next((match for word in words if (match := _ARCHITECTURE.search(word))), None)
    return f"sm{found[1]}" if found else UNKNOWN


def _unit(words: Sequence[str]) -> str:
    if any(word.startswith(("OpClassTensorOp", "MainloopSm", "MmaTensorOp")) for word in words):
        return "tensor core"
    return "simt" if any(word.startswith(("OpClassSimt", "MmaSimt")) for word in words) else UNKNOWN
