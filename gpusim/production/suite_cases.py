"""Which kernel of the suite stands for a launch of production, at which shape.

Mental model: a table from what the kernel's name says (family, operation, type) to a kernel of the suite that does the
same work in the same way, or to the reason why none does. Where the operator's dimensions are recorded they give the
shape (``basis`` operator); for PyTorch's elementwise loops, whose blocks do a fixed number of elements, the grid does,
up to a block (``basis`` grid). Otherwise only the kernel is known (``basis`` kernel), and no claim is made about the
shape. bf16 stands as float16, which moves as many bytes and has the same rate on tensor cores from sm_80 on.

The table is a judgement, of what computes and moves alike; a row of it is as good as that likeness.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpusim.production.columns import NamedTotal
from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.types import type_of
from gpusim.production.operator_shapes import (
    attention_sizes,
    product_sizes,
    rows_and_columns,
)

_WORD = re.compile(r"[A-Za-z_]\w*")
_MOST_TYPES = 200
#: Parsed type -> what the suite calls it.
_HALF = {"fp16": "float16", "bf16": "float16"}
_BOTH = {"fp32": "float32", **_HALF}
#: Elements that a block of PyTorch's elementwise loops does: 128 threads, 4 each (CUDALoops.cuh, until 2.5).
LOOP_ELEMENTS, LOOP_THREADS = 512, 128
_LOOPS = ("vectorized_elementwise_kernel", "unrolled_elementwise_kernel")
#: Products whose columns are moved by 16 bytes need multiples of so many halves (bytes).
_MULTIPLE = {"hgemm_tensor": 8, "igemm_int8": 16}


@dataclass(frozen=True)
class SuiteCase:
    """A kernel of the suite with the axes of its shape that production tells."""

    kernel: str
    shape: Mapping[str, Any] = field(default_factory=dict)
    basis: str = "kernel"

    @property
    def request(self) -> str:
        """As command lines take it."""
        axes = ",".join(f"{axis}={value}" for axis, value in self.shape.items())
        return f"{self.kernel}:{axes}" if axes else self.kernel


@dataclass(frozen=True)
class NoCase:
    """Why no kernel of the suite stands for a launch."""

    reason: str


_COLLECTIVE = NoCase("a collective over GPUs: gpusim simulates one GPU")
_NAMELESS = NoCase("the name does not say what it computes")
#: (family, operation): the suite's kernel, or why there is none; ``*``: whatever the operation.
_KERNELS: dict[tuple[str, str], str | NoCase] = {
    ("attention", "flash_forward"): "flash_attention", ("attention", "efficient_forward"): "flash_attention",
    ("attention", "flash"): "flash_attention", ("attention", "prefill"): "flash_attention", ("attention", "fmha"): "flash_attention",
    ("attention", "attention"): "flash_attention", ("attention", "sdpa"): "flash_attention",
    ("attention", "flash_split_kv"): "paged_attention_decode", ("attention", "decode"): "paged_attention_decode",
    ("attention", "paged"): "paged_attention_decode", ("attention", "unified"): "paged_attention_decode",
    ("attention", "flash_combine"): "cpp_decode", ("attention", "merge"): "cpp_decode",
    ("attention", "flash_backward"): "triton_attention_backward",
    ("attention", "efficient_backward"): "triton_attention_backward",
    ("mixture_of_experts", "gemm"): "triton_moe_matmul", ("mixture_of_experts", "gate"): "topk",
    ("mixture_of_experts", "permute"): "moe_permute", ("mixture_of_experts", "moe"): "moe_permute",
    ("normalisation", "layer_norm"): "layernorm", ("normalisation", "native_layer_norm"): "layernorm",
    ("normalisation", "layer_norm_backward"): "layernorm_backward", ("normalisation", "rms_norm"): "rmsnorm",
    ("softmax", "softmax"): "softmax", ("softmax", "softmax_backward"): NoCase("the suite has no softmax backward"),
    ("softmax", "*"): "softmax",
    ("loss", "cross_entropy"): "cross_entropy", ("loss", "nll"): "cross_entropy",
    ("elementwise", "gelu"): "gelu", ("elementwise", "act_and_mul"): "silu_mul", ("elementwise", "swiglu"): "silu_mul",
    ("elementwise", "silu_mul"): "silu_mul", ("elementwise", "*"): "elementwise_fused",
    ("reduction", "argmax"): "argmax", ("reduction", "sum"): "reduce_sum", ("reduction", "mean"): "reduce_sum",
    ("reduction", "reduce"): "reduce_sum",
    ("embedding", "embedding"): "embedding_gather", ("embedding", "embedding_backward"): "scatter_add",
    ("position_embedding", "*"): "rope",
    ("indexing", "index_select"): "embedding_gather", ("indexing", "gather"): "embedding_gather",
    ("indexing", "index"): "embedding_gather", ("indexing", "index_put"): "scatter_add", ("indexing", "index_add"): "scatter_add",
    ("indexing", "scatter"): "scatter_add", ("indexing", "nonzero"): "compaction",
    ("layout", "transpose"): "transpose", ("layout", "permute"): "transpose", ("layout", "nchw_to_nhwc"): "transpose",
    ("layout", "nhwc_to_nchw"): "transpose",
    ("copy", "direct_copy"): "stream_scale", ("fill", "fill"): "stream_init",
    ("copy", "*"): NoCase("a copy of the driver, which is no kernel of its own"),
    ("fill", "memset"): NoCase("a fill of the driver, which is no kernel of its own"),
    ("quantisation", "dequantise"): "dequant_int8",
    ("sampling", "top_k"): "topk", ("sampling", "top_p"): "topk", ("sampling", "sample"): "sample_gumbel",
    ("sort_scan", "radix_sort"): "radix_sort_step", ("sort_scan", "scan"): "scan_lookback", ("sort_scan", "select"): "cpp_select",
    ("sort_scan", "histogram"): "histogram", ("sort_scan", "reduce_by_key"): "cpp_reduce_by_key", ("sort_scan", "top_k"): "topk",
    ("sort_scan", "merge"): "cpp_merge", ("sort_scan", "merge_sort"): "cpp_merge", ("sort_scan", "sort"): "triton_sort",
    ("sort_scan", "bitonic_sort"): "bitonic_sort",
    ("random", "dropout"): "triton_dropout", ("random", "*"): "cpp_philox",
    ("pooling", "max_pool"): "maxpool2d", ("pooling", "average_pool"): "avgpool2d",
    ("state_space", "scan"): "triton_recurrence", ("convolution", "conv1d"): "cpp_causal_conv1d",
    ("sparse", "spmv"): "spmv_csr_vector", ("sparse", "spmm"): "cpp_spmm", ("fourier", "*"): "fft", ("solver", "potrf"): "cpp_cholesky",
    ("communication", "*"): _COLLECTIVE, (UNKNOWN, "*"): _NAMELESS,
}  # fmt: skip
#: Types that the suite's kernel has; not named: any. A kernel whose axis is ``dtype`` gets it.
_TYPES: dict[str, Mapping[str, str]] = {
    "flash_attention": _BOTH, "paged_attention_decode": _BOTH, "rmsnorm": _BOTH, "elementwise_fused": _BOTH, "gelu": _BOTH,
    "silu_mul": _BOTH, "embedding_gather": _BOTH, "scatter_add": _BOTH, "cross_entropy": _BOTH, "gemv": _BOTH, "rope": _BOTH,
}  # fmt: skip
_SINGLE = {
    "softmax": "fp32",
    "layernorm": "fp32",
    "layernorm_backward": "fp32",
    "reduce_sum": "fp32",
    "transpose": "fp32",
}


def case_of(row: NamedTotal) -> SuiteCase | NoCase:
    """The suite's kernel for a row of production, or why there is none. Where the kernel's name tells no type, the
    inputs' of the operator around it do, of a product and of an operator whose kernels are not told."""
    if row.name.dtype == UNKNOWN and (row.name.family == "matrix_product" or row.total.what.kind == "operator"):
        dtype = type_of(_WORD.findall(row.total.what.dtypes[:_MOST_TYPES]), integers=False)
        row = replace(row, name=replace(row.name, dtype=dtype))
    name = row.name
    if name.family == "matrix_product":
        return _product_case(row)
    if name.family == "convolution" and name.operation != "conv1d":
        return _convolution_case(name)
    kernel = _KERNELS.get((name.family, name.operation)) or _KERNELS.get((name.family, "*"))
    if isinstance(kernel, NoCase):
        return kernel
    if kernel is None:
        return NoCase(f"the suite has no kernel for {name.operation} ({name.family})")
    types = _TYPES.get(kernel)
    if name.dtype != UNKNOWN and (types is not None and name.dtype not in types):
        return NoCase(
            f"the suite has {kernel} in {' and '.join(sorted(set(types.values())))} only, not in {name.dtype}"
        )
    if name.dtype != UNKNOWN and _SINGLE.get(kernel, name.dtype) != name.dtype:
        return NoCase(f"the suite has {kernel} in float32 only, not in {name.dtype}")
    dtype = {"dtype": types[name.dtype]} if types is not None and name.dtype in types else {}
    sized = _sized(kernel, row)
    if sized is None:
        return SuiteCase(kernel, dtype)
    shape, basis = sized
    return SuiteCase(kernel, shape | dtype, basis)


def _product_case(row: NamedTotal) -> SuiteCase | NoCase:
    name, what = row.name, row.total.what
    sizes = product_sizes(what.operator, what.shapes)
    if name.operation in ("split_k_reduce", "epilogue"):
        return NoCase("a part of a matrix product: the suite has the product as a whole")
    if name.operation in ("grouped_gemm", "sparse"):
        return NoCase(
            "the suite has no such product"
            if name.operation == "sparse"
            else "the suite's grouped product has no shapes like these"
        )
    vector = name.operation == "gemv" or (sizes is not None and 1 in sizes[1:3])
    if vector and name.dtype in _BOTH:
        dtype = {"dtype": _BOTH[name.dtype]}
        if sizes is None or sizes[0] != 1:
            return SuiteCase("gemv", dtype)
        _, m, n, k = sizes
        return SuiteCase("gemv", {"rows": max(m, n), "columns": k} | dtype, "operator")
    if name.dtype == "fp32":
        kernel = "sgemm_batched" if sizes is not None and sizes[0] > 1 else "sgemm_register"
    elif name.dtype in _HALF:
        kernel = "hgemm_tensor"
    elif name.dtype == "int8":
        kernel = "igemm_int8"
    elif name.dtype == "fp8_e4m3":
        kernel = "cpp_fp8_gemm"
    else:
        return NoCase(
            "the type of the product is not told"
            if name.dtype == UNKNOWN
            else f"the suite has no product in {name.dtype}"
        )
    if sizes is None or (sizes[0] > 1 and kernel != "sgemm_batched"):
        return SuiteCase(kernel)
    batch, m, n, k = sizes
    if n % _MULTIPLE.get(kernel, 1) or k % _MULTIPLE.get(kernel, 1):
        return SuiteCase(kernel)
    return SuiteCase(kernel, ({"batch": batch} if batch > 1 else {}) | {"m": m, "n": n, "k": k}, "operator")


def _convolution_case(name: KernelName) -> SuiteCase | NoCase:
    if name.operation in ("dgrad", "wgrad") or name.operation.startswith(("dgrad_", "wgrad_")):
        return NoCase("the suite has no gradients of a convolution")
    if name.operation not in ("fprop", "convolution", "conv2d"):
        return NoCase(f"the suite has no convolution by {name.operation}")
    if name.dtype == "fp32":
        return SuiteCase("conv2d_implicit_gemm")
    if name.dtype in _HALF:
        return SuiteCase("triton_conv2d")
    return NoCase(f"the suite has no convolution in {name.dtype}")


def _sized(kernel: str, row: NamedTotal) -> tuple[dict[str, Any], str] | None:
    """The axes that are known, and by what."""
    what = row.total.what
    # Inputs of an operator that does more than this (a compiled function, a backward pass) are not this kernel's.
    own = what.operator.startswith("aten::") and row.name.operation.removesuffix("_backward") in what.operator
    found = rows_and_columns(what.shapes) if own else None
    if kernel in ("softmax", "layernorm", "layernorm_backward", "rmsnorm", "silu_mul"):
        return None if found is None else ({"rows": found[0], "columns": found[1]}, "operator")
    if kernel == "flash_attention":
        sizes = attention_sizes(what.operator, what.shapes)
        if sizes is None or sizes[3] not in (32, 64, 128):
            return None
        return dict(zip(("batch", "heads", "tokens", "head_dim"), sizes)), "operator"
    if kernel not in ("elementwise_fused", "gelu", "reduce_sum"):
        return None
    if found is not None:
        rows, columns = found
        return {"rows": rows, "columns": columns} if kernel == "elementwise_fused" else {
            "n": rows * columns
        }, "operator"
    count = loop_elements(row) if kernel != "reduce_sum" else None
    if count is None:
        return None
    rows, columns = count // LOOP_ELEMENTS, LOOP_ELEMENTS
    return {"rows": rows, "columns": columns} if kernel == "elementwise_fused" else {"n": count}, "grid"


def loop_elements(row: NamedTotal) -> int | None:
    """Elements of one of PyTorch's elementwise loops by its grid, up to those of a block too many."""
    what = row.total.what
    if not row.name.function.startswith(_LOOPS) or what.grid is None or what.block != (LOOP_THREADS, 1, 1):
        return None
    return LOOP_ELEMENTS * what.grid[0] if what.grid[1:] == (1, 1) else None
