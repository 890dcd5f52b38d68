"""Kinds of operators among the measured rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd

from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention_context import ContextShape, context_library_of, project_context
from gpusim.tile.formats import format_of
from gpusim.tile.library import library_of
from gpusim.tile.memory import MemoryOp, memory_library_of, project_memory
from gpusim.tile.mla import MlaShape, project_mla
from gpusim.tile.mla_library import mla_context_library_of, mla_library_of
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.moe_library import moe_library_of
from gpusim.tile.product import GemmOp, project_product
from gpusim.tile.software import product_library
from operators.eager import eager_int8_seconds
from operators.kind import Kind
from operators.l2_state import experts_stay, weights_stay
from operators.measured import EVENT_STEP_US, FITTED_GPUS, as_read, in_steps
from operators.recurrent_kinds import RECURRENT_FILES, RECURRENT_KINDS

_GEMM = (
    "launch_ns", "step_cycles", "dram_share", "split_k_cycles", "block_start_cycles", "epilogue_cycles",
    "epilogue_elements_per_cycle", "fill_bytes_per_cycle", "rate_largest", "rate_large", "rate_medium", "rate_small",
    "shared_loads", "l2_share", "l2_rate_share", "convert_rate", "ragged_ns", "outside_loads", "outside_fill",
)  # fmt: skip
_MOE = (
    "routing_ns", "token_ns", "choice_ns", "launch_ns", "rate_largest", "rate_large", "rate_medium", "rate_small", "dram_share",
    "l2_rate_share", "block_start_cycles", "step_cycles", "l2_share", "empty_block_cycles", "zero_block_cycles", "element_cycles", "convert_cycles",
)  # fmt: skip
_MOE_SHAPE = (
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "distribution",
)
_MLA = (
    "launch_ns", "start_cycles", "step_cycles", "rate", "block_bytes_per_cycle", "head_cycles", "combine_cycles", "dram_share",
    "l2_rate_share", "l2_share",
)  # fmt: skip
_CONTEXT = ("launch_ns", "start_cycles", "rate", "score_cycles", "tail", "kv_passes", "head_passes")
_MEMORY = ("launch_ns", "start_cycles", "block_bytes_per_cycle", "dram_share", "l2_rate_share", "l2_share")
#: Versions whose rows were collected by the earlier rule (routing.py): a token or two on any number of GPUs take as
#: long as on one.
_TOGETHER = ("0.14.0", "1.3.0rc10")
#: Versions whose rows were collected by the first rule, by which what rounding misses goes to the experts with the most
#: (version 1.0.0's of an A100: 22.9 to 5.9 % at 5 to 8 tokens on one GPU, learning rows; no other version's rows are
#: nearer by it).
_HEAPED = ("1.0.0",)
#: Hidden, inner, top_k and experts of models whose experts have no gate: all that TensorRT-LLM ran so
#: (moe_torch_flow_nongated).
_WITHOUT_GATE = ((2048, 5120, 22, 512), (2688, 1856, 6, 128), (4096, 2688, 22, 512), (8192, 5120, 22, 512))
#: Beside absorbed latent attention: a head's own products of (columns, depth).
_BMM = {"mla_gen_pre": (512, 128), "mla_gen_post": (128, 512)}


#: ``copied_on``: generations whose figures were set with what L2 kept of the copies that the runs went over; those of
#: the others as if it kept none. ``graph_calls``: calls in a graph whose rows come in steps (measured.as_read; 0: their
#: steps are not seen).
def _gemm(
    dtype: str, block_scaled: bool, converted: bool = False, framework: str = "", copied_on: tuple[str, ...] = (),
    graph_calls: int = 0, step_us: float = 0.0,
) -> Callable[[GpuSpec, Any, Any], float]:  # fmt: skip
    def seconds(spec: GpuSpec, row: Any, library: Any) -> float:
        input_dtype = dtype if converted else "bf16"
        op = GemmOp(
            int(row.m),
            int(row.n),
            int(row.k),
            dtype,
            block_scaled=block_scaled,
            input_dtype=input_dtype,
            warm=spec.generation in copied_on
            and weights_stay(spec, format_of(dtype, block_scaled).b_bytes * row.n * row.k),
            framework=framework,
        )
        found = project_product(spec, op, library).seconds
        if framework and converted:  # the product alone, behind what the rows' collector converts with
            found += eager_int8_seconds(spec, int(row.m), int(row.k))
        if step_us:
            return 1e-6 * in_steps(1e6 * found, step_us)
        return 1e-6 * as_read(spec.name, 1e6 * found, graph_calls) if graph_calls else found

    return seconds


def _around(row: str, framework: str) -> Callable[[str], Any]:
    """The figures of a generation's measured GPU with what a framework launches around."""
    return lambda generation: product_library(load_gpu(FITTED_GPUS[generation]), row, framework)


def _bmm(dtype: str) -> Callable[[GpuSpec, Any, Any], float]:
    def seconds(spec: GpuSpec, row: Any, library: Any) -> float:
        # The same buffers every time; one head goes the way of many.
        op = GemmOp(int(row.num_tokens), *_BMM[row.op_name], dtype, batch=int(row.num_heads), warm=True)
        return project_product(spec, op, library or product_library(spec, "batch")).seconds

    return seconds


def _distribution(row: Any) -> str:
    """What the version's collector took for a power law: earlier ones gave what rounding misses to others."""
    if row.distribution == "balanced":
        return row.distribution
    return row.distribution + "_together" * (row.version in _TOGETHER) + "_heaped" * (row.version in _HEAPED)


def _network(row: Any) -> tuple[int, int, int, int]:
    return int(row.hidden_size), int(row.inter_size), int(row.topk), int(row.num_experts)


def _gated(row: Any) -> bool:
    """Whether a gate stands beside the first product: of models that TensorRT-LLM's rows call nongated, vLLM's take
    none from 0.24 on."""
    return not (row.version == "0.24.0" and _network(row) in _WITHOUT_GATE)


def _clamped(row: Any) -> bool:
    """Whether choices of other GPUs' experts were counted as one of this GPU's."""
    version, networks = _CLAMPED_STILL
    return row.version in _CLAMPED or (row.version == version and _network(row) in networks)


#: Versions whose rows of several GPUs were measured with choices of other GPUs' experts counted as one of this GPU's
#: (SGLang's of the collector until then): read off rows of balanced choices, where a token on four GPUs takes what two
#: experts take, and 12,288 tokens of eight choices 19.5 to 20 ms on one to eight GPUs alike (A100, int4_wo), 9.6, 4.8,
#: 2.4, 1.2 and 0.6 ms on 16 to 256.
_CLAMPED = ("0.5.6.post2", "0.5.9", "0.5.10")
#: Of the version after these, networks (hidden, inner, top_k and experts) whose rows were measured so still: 3,072
#: balanced tokens on one of 64 x 4 GPUs take 73 us with 128 experts of 2,816 x 704, which is what 3,072 rows take and
#: not 24,576; 6,144 tokens of eight experts of 6,144 x 16,384 32 ms, as 12,288 rows (learning rows on an H100, bf16 and
#: block scales: 32.0 to 10.7 %, 23.0 to 15.8 and 13.5 to 9.5, 27.4 to 10.7 and 23.8 to 13.5; all other networks' rows
#: are farther off so).
_CLAMPED_STILL = ("0.5.14", ((2816, 704, 8, 128), (4096, 14336, 2, 8), (6144, 16384, 2, 8)))
#: Versions of vLLM whose default tiles are those of before 0.17.
_EARLIER_TILES = ("0.14.0",)
#: Versions of TensorRT-LLM whose kernels of MXFP4 go over other GPUs' experts' rows too: 16,384 tokens on one of 128
#: GPUs take 1.17 ms; 32,768 by version 1.2.0rc5 0.84.
_ALL_CHOICES = ("1.3.0rc20",)
#: Versions of TensorRT-LLM whose CUTLASS experts take so much longer at any load, as with kernels of their own for the
#: choice of experts: 130 learning rows of fp8 with up to 256 tokens, of three networks, on 1 to 256 GPUs (middle half
#: 10.4 to 15.7 us). Those of MXFP4 by triton_kernels, with one token or 20,480, on one GPU or 128: 30 us (497 learning
#: rows, beside blocks without work as vLLM's launches of the same kernels have them).
_ROUTED_APART_NS = {
    ("fp8", "1.3.0rc10"): (14000.0, 12.0),
    ("bf16", "1.3.0rc10"): (14000.0, 12.0),
    ("mxfp4_wo", "1.3.0rc20"): (30000.0, 0.0),
}
#: Rows that wait for the host however little there is to do, as launches outside of a graph do: SGLang's of int4 on an
#: A100, none of whose 121 learning rows that are projected at 30 to 45 us takes under 40 and half of them 50 to 58 (an
#: H100's take 21 and more). Nothing that the GPU takes is projected so.
_HOST_SECONDS = {("int4_wo", "ampere"): 52e-6}


def _moe(dtype: str, framework: str = "") -> Callable[[GpuSpec, Any, Any], float]:
    def seconds(spec: GpuSpec, row: Any, library: Any) -> float:
        op = MoeOp(
            int(row.num_tokens), int(row.hidden_size), int(row.inter_size), int(row.num_experts), int(row.topk), dtype,
            int(row.moe_ep_size), int(row.moe_tp_size), _distribution(row), gated=_gated(row), framework=framework, earlier=row.version in _EARLIER_TILES,
        )  # fmt: skip
        op = replace(op, warm=experts_stay(spec, op))
        if library is None and getattr(row, "first_tile", False):
            library = moe_library_of(spec.generation, dtype, framework, tuned=False)
        if op.ep > 1 and _clamped(row):
            library = replace(library or moe_library_of(spec.generation, dtype, framework), choices="clamped")
        apart_ns, token_ns = _ROUTED_APART_NS.get((dtype, row.version), (0.0, 0.0))
        if apart_ns:
            known = library or moe_library_of(spec.generation, dtype, framework)
            library = replace(known, routing_ns=known.routing_ns + apart_ns, token_ns=known.token_ns + token_ns)
        if dtype == "mxfp4_wo" and op.ep > 1 and row.version in _ALL_CHOICES:
            library = replace(library or moe_library_of(spec.generation, dtype, framework), choices="all")
        waited = _HOST_SECONDS.get((dtype, spec.generation), 0.0) if not framework else 0.0
        return max(waited, project_moe(spec, op, library).seconds)

    return seconds


def _mla_generation(kv_dtype: str = "") -> Callable[[GpuSpec, Any, Any], float]:
    def seconds(spec: GpuSpec, row: Any, library: Any) -> float:
        shape = MlaShape(int(row.batch_size), 1, int(row.step) + 1, int(row.num_heads), kv_dtype=kv_dtype)
        return project_mla(spec, shape, library).seconds

    return seconds


def _mla_context(kv_dtype: str = "") -> Callable[[GpuSpec, Any, Any], float]:
    def seconds(spec: GpuSpec, row: Any, library: Any) -> float:
        queries = int(row.isl)
        shape = MlaShape(int(row.batch_size), queries, queries, int(row.num_heads), "context", kv_dtype=kv_dtype)
        return project_mla(spec, shape, None, library).seconds

    return seconds


def _encoder(spec: GpuSpec, row: Any, library: Any) -> float:
    heads = int(row.num_heads)
    shape = ContextShape(int(row.batch_size), int(row.isl), heads, heads, int(row.head_dim), causal=False)
    return project_context(spec, shape, library).seconds


def _quantize(spec: GpuSpec, row: Any, library: Any) -> float:
    elements = float(row.m) * row.k
    return project_memory(spec, MemoryOp("quantize", 2 * elements, elements, int(row.m)), library).seconds


def _rows(table: pd.DataFrame) -> Any:
    return table["m"] if "m" in table else table["num_tokens"]


def _experts(dtype: str, of_rows: str, sources: dict[str, str], framework: str = "", shared: bool = False) -> Kind:
    """Experts of a format (``of_rows``: what the rows call it) by a framework's kernels ("": those that are followed);
    ``shared``: whose figures there are without either generation's rows, too."""
    return Kind(
        _MOE_SHAPE, {"moe_dtype": (of_rows,)}, sources, _rows, _moe(dtype, framework),
        lambda generation: moe_library_of(generation, dtype, framework), _MOE,
        (lambda generation: moe_library_of(generation, dtype, framework, generation)) if shared else None,
    )  # fmt: skip


KINDS = {
    "gemm_fp8": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("fp8",), "suspect": (0,)}, {"h100": "sglang", "b200": "trtllm"}, _rows, _gemm("fp8", False, copied_on=("hopper",)),
        lambda generation: library_of(generation, "fp8"), _GEMM,
    ),
    "gemm_fp8_block": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("fp8_block",), "suspect": (0,)}, {"h100": "sglang", "b200": "trtllm"}, _rows, _gemm("fp8", True, copied_on=("hopper",)),
        lambda generation: library_of(generation, "fp8_block"), _GEMM,
    ),
    "gemm_fp8_trtllm": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("fp8",), "suspect": (0,)}, {"h100": "trtllm"}, _rows, _gemm("fp8", False, framework="trtllm"),
        lambda generation: library_of(generation, "fp8_trtllm"), _GEMM,
    ),
    "gemm_fp8_vllm": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("fp8",), "suspect": (0,)}, {"h100": "vllm"}, _rows, _gemm("fp8", False, framework="vllm", copied_on=("hopper",)),
        lambda generation: library_of(generation, "fp8_vllm"), _GEMM,
    ),
    "gemm_fp8_block_trtllm": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("fp8_block",), "suspect": (0,)}, {"h100": "trtllm"}, _rows, _gemm("fp8", True, framework="trtllm"),
        lambda generation: library_of(generation, "fp8_block_trtllm"), _GEMM,
    ),
    "gemm_fp8_block_vllm": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("fp8_block",), "suspect": (0,)}, {"b200": "vllm"}, _rows, _gemm("fp8", True, framework="vllm"),
        _around("fp8_block", "vllm"), _GEMM, least_us=300.0,
    ),
    "gemm_nvfp4_trtllm": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("nvfp4",), "suspect": (0,)}, {"b200": "trtllm"}, _rows, _gemm("nvfp4", False, framework="trtllm"),
        _around("nvfp4", "trtllm"), _GEMM,
    ),
    # vLLM's graphs had one call: of its rows of 5 to 15 us 85 % lie within 0.06 us of a multiple of 2.048 us, by chance 6.
    "gemm_nvfp4": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("nvfp4",), "suspect": (0,)}, {"b200": "vllm"}, _rows, _gemm("nvfp4", False, graph_calls=1),
        lambda generation: library_of(generation, "nvfp4"), _GEMM,
    ),
    "gemm_int8": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("sq",), "suspect": (0,)}, {"a100_80gb": "trtllm"}, _rows, _gemm("int8", False, converted=True),
        lambda generation: library_of(generation, "int8"), _GEMM,
    ),
    "gemm_int8_wo_sglang": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("int8_wo",), "suspect": (0,)}, {"h100": "sglang"}, _rows, _gemm("int8_wo", False, True, framework="sglang", copied_on=("hopper",)),
        _around("int8_wo", "sglang"), _GEMM,
    ),
    "gemm_int8_wo": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("int8_wo",), "suspect": (0,)}, {"a100_80gb": "trtllm"}, _rows, _gemm("int8_wo", False, step_us=EVENT_STEP_US),
        lambda generation: library_of(generation, "int8_wo"), _GEMM,
    ),
    "gemm_int4_wo": Kind(
        ("m", "n", "k"), {"gemm_dtype": ("int4_wo",), "suspect": (0,)}, {"a100_80gb": "trtllm"}, _rows, _gemm("int4_wo", False, step_us=EVENT_STEP_US),
        lambda generation: library_of(generation, "int4_wo"), _GEMM,
    ),
    "bmm": Kind(
        ("op_name", "num_tokens", "num_heads"), {"bmm_dtype": ("bfloat16",)}, {"a100_80gb": "", "h100": ""}, _rows,
        _bmm("bf16"), lambda generation: library_of(generation, "batch"), _GEMM,
    ),
    "moe_bf16": _experts("bf16", "bfloat16", {"a100_80gb": "vllm_fused_moe", "h100": "vllm_unquantizedfusedmoe_triton_tritonexperts"}, shared=True),
    "moe_bf16_sglang": _experts("bf16", "bfloat16", {"a100_80gb": "sglang_fused_moe_triton", "h100": "sglang_fused_moe_triton"}, "sglang", shared=True),
    "moe_bf16_trtllm": _experts("bf16", "bfloat16", {"a100_80gb": "moe_torch_flow", "h100": "moe_torch_flow_cutlass"}, "trtllm"),
    "moe_fp8": _experts("fp8", "fp8", {"h100": "moe_torch_flow_cutlass"}),
    "moe_fp8_vllm": _experts("fp8", "fp8", {"h100": "vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts"}, "vllm"),
    "moe_fp8_block": _experts("fp8_block", "fp8_block", {"h100": "sglang_fused_moe_triton"}),
    "moe_fp8_block_vllm": _experts("fp8_block", "fp8_block", {"h100": "vllm_fp8moe_triton_tritonexperts"}, "vllm"),
    "moe_fp8_block_trtllm": _experts("fp8_block", "fp8_block", {"h100": "moe_torch_flow_cutlass"}, "trtllm"),
    "moe_int4_wo": _experts("int4_wo", "int4_wo", {"a100_80gb": "sglang_marlin_moe", "h100": "sglang_marlin_moe"}, shared=True),
    "moe_int4_wo_vllm": _experts("int4_wo", "int4_wo", {"h100": "vllm_compressedtensorswna16marlinmoe_marlin_marlinexperts"}, "vllm"),
    "moe_mxfp4_wo": _experts("mxfp4_wo", "w4a16_mxfp4", {"h100": "vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic"}),
    "moe_mxfp4_wo_sglang": _experts("mxfp4_wo", "w4a16_mxfp4", {"h100": "sglang_fused_moe_triton"}, "sglang"),
    "moe_mxfp4_wo_trtllm": _experts("mxfp4_wo", "w4a16_mxfp4", {"h100": "moe_torch_flow"}, "trtllm"),
    "mla_generation": Kind(
        ("batch_size", "step", "num_heads"), {"kv_cache_dtype": ("bfloat16",)}, {"a100_80gb": "trtllm", "h100": "trtllm"},
        lambda table: 1152.0 * table.batch_size * (table.step + 1), _mla_generation(), mla_library_of, _MLA,
    ),
    "mla_context": Kind(
        ("batch_size", "isl", "num_heads"), {"kv_cache_dtype": ("bfloat16",)}, {"a100_80gb": "trtllm", "h100": "trtllm"},
        lambda table: table.isl, _mla_context(), mla_context_library_of, _CONTEXT,
    ),
    "mla_generation_fp8": Kind(
        ("batch_size", "step", "num_heads"), {"kv_cache_dtype": ("fp8",)}, {"h100": "trtllm"},
        lambda table: 576.0 * table.batch_size * (table.step + 1), _mla_generation("fp8"), lambda generation: mla_library_of(generation, "fp8"), _MLA,
    ),
    "mla_context_fp8": Kind(
        ("batch_size", "isl", "num_heads"), {"kv_cache_dtype": ("fp8",)}, {"h100": "trtllm"},
        lambda table: table.isl, _mla_context("fp8"), lambda generation: mla_context_library_of(generation, "fp8"), _CONTEXT,
    ),
    "encoder": Kind(
        ("batch_size", "isl", "num_heads", "head_dim"), {"attn_dtype": ("bfloat16",)}, {"h100": "vllm"},
        lambda table: table.isl, _encoder, lambda generation: context_library_of(generation, causal=False),
        (*_CONTEXT, "padding_ns"),
    ),
    "quantize": Kind(
        ("m", "k"), {"quant_dtype": ("fp8",)}, {"h100": "vllm"}, lambda table: 3.0 * table.m * table.k, _quantize,
        memory_library_of, _MEMORY,
    ),
} | RECURRENT_KINDS  # fmt: skip
#: File of each kind's rows.
FILES = {
    "gemm_fp8": "gemm", "gemm_fp8_trtllm": "gemm", "gemm_fp8_vllm": "gemm", "gemm_fp8_block": "gemm", "gemm_fp8_block_trtllm": "gemm", "gemm_fp8_block_vllm": "gemm", "gemm_nvfp4_trtllm": "gemm", "gemm_nvfp4": "gemm", "gemm_int8": "gemm", "gemm_int8_wo": "gemm", "gemm_int8_wo_sglang": "gemm", "gemm_int4_wo": "gemm", "bmm": "mla_bmm",
    "mla_generation": "mla_generation", "mla_context": "mla_context", "mla_generation_fp8": "mla_generation", "mla_context_fp8": "mla_context", "encoder": "attention_encoder",
    "quantize": "quantize_scale_matrix",
    **{name: "moe" for name in KINDS if name.startswith("moe_")},
} | RECURRENT_FILES  # fmt: skip
