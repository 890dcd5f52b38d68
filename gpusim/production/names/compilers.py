"""Kernels that compilers name: TorchInductor's through Triton, and XLA's.

Mental model: Inductor calls a kernel ``triton_KIND_fused_OPERATORS_NUMBER``: ``poi`` is pointwise, ``red`` a reduction
in a loop, ``per`` one whose row fits into a program, ``tem`` a template (a matrix product, convolution or attention),
``for`` a foreach, ``split_scan`` a scan. Its operators say more: a reduction fused of ``native_layer_norm`` is a
normalisation. Names without them (``triton__0d1d2d``, ``triton_poi_fused_0``) do not say what is computed. XLA calls
fusions by their root: ``loop_add_fusion``, ``input_reduce_fusion``, ``gemm_fusion_dot_7``.

Sources: ``torch/_inductor/codegen/triton.py`` and ``torch/_inductor/utils.py`` (``get_fused_kernel_name``), PyTorch 2.0
to 2.7; XLA's fusions as its users' profiles show them.
"""

from __future__ import annotations

import re

from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.keywords import named_family
from gpusim.production.names.split import SplitName

_KINDS = {
    "poi": "elementwise",
    "red": "reduction",
    "per": "reduction",
    "tem": UNKNOWN,
    "for": "elementwise",
    "split": "sort_scan",
}
_NUMBER = re.compile(r"_\d{1,9}$")
#: Nothing that says what is computed.
_SILENT = frozenset(
    (
        "view",
        "clone",
        "unsqueeze",
        "expand",
        "t",
        "permute",
        "slice",
        "prims",
        "convert",
        "element",
        "type",
        "to",
        "copy",
        "",
        "fused",
    )
)
_XLA = ("fusion", "wrapped", "gemm_fusion", "loop_", "input_", "triton_gemm", "triton_softmax")


def compiled(split: SplitName) -> KernelName | None:
    """A kernel of Inductor, of XLA, or one that bears Triton's signature."""
    function = split.function
    if unsigned(function) != function and not function.startswith("triton_"):
        family, operation = named_family(unsigned(function))
        return KernelName(family, operation, "triton", function=unsigned(function))
    if function.startswith(("triton_gemm", "triton_softmax", "gemm_fusion")):
        family = "softmax" if "softmax" in function else "matrix_product"
        return KernelName(
            family, "softmax" if family == "softmax" else "gemm", "xla", function=_NUMBER.sub("", function)
        )
    if function.startswith("triton_"):
        return _inductor(function)
    if "fusion" in function.split("_", 40) and (
        function.startswith(_XLA) or _NUMBER.sub("", function).endswith("fusion")
    ):
        return _xla(function)
    return None


def unsigned(function: str) -> str:
    """Without the signature that Triton 2 put behind a name: ``matmul_0d1d2c3de`` is ``matmul``. As it is where it has
    none."""
    head, _, tail = function.rpartition("_")
    if not tail.startswith("0d") and not tail.startswith("0c") or set(tail) - set("0123456789cde"):
        return function
    return f"{head}_" if head.endswith("_") else head


def _inductor(function: str) -> KernelName:
    text = _NUMBER.sub("", unsigned(function)[7:])
    kind, _, rest = text.partition("_")
    if kind not in _KINDS:
        if kind in ("", "fused"):
            return KernelName(library="inductor", function="triton")
        family, operation = named_family(text)
        return KernelName(family, operation, "triton", function=function)
    operators = rest.removeprefix("fused").strip("_")
    words = [word for word in operators.split("_", 200) if word not in _SILENT and not word.isdigit()]
    family, operation = named_family(operators) if words else (UNKNOWN, UNKNOWN)
    plain = _KINDS[kind]
    if kind == "tem" or plain == "reduction" or family in ("embedding", "indexing", "random", "quantisation"):
        family = family if family not in (UNKNOWN, "elementwise", "copy", "layout") else plain
    else:
        family = plain
    if not words:  # a pointwise kernel it is; what it computes stays unknown
        return KernelName(plain, UNKNOWN, "inductor", function=f"triton_{kind}")
    shown = operators if len(operators) <= 60 else operators[:57] + "..."
    return KernelName(family, operation if family in (plain, UNKNOWN) and operation != UNKNOWN and plain == "reduction" else shown,
                      "inductor", function=f"triton_{kind}_fused_{shown}")  # fmt: skip


def _xla(function: str) -> KernelName:
    text = _NUMBER.sub("", function)
    root = text.removesuffix("fusion").strip("_")
    for begin in ("loop_", "input_", "wrapped_"):
        root = root.removeprefix(begin)
    family, operation = named_family(root)
    if family == UNKNOWN and text.startswith("loop_"):
        family = "elementwise"
    if family == UNKNOWN and text.startswith("input_"):
        family = "reduction"
    return KernelName(family, operation if operation != UNKNOWN else root or UNKNOWN, "xla", function=text)
