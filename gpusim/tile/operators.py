"""One front for every operator of a model on one GPU: what it is in, a :class:`Projection` out.

Mental model: an operator is a shape and a dtype; which kernels a library makes of it is decided below (``gemm``, ``attention``, ``mla``, ``moe``,
``memory``). The same operator on the same GPU is projected once and remembered.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention import AttentionShape, project_attention
from gpusim.tile.attention_context import ContextShape, project_context
from gpusim.tile.bands import gemm_band
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.joined import joined
from gpusim.tile.machine import OPERANDS
from gpusim.tile.memory import MemoryOp, project_memory
from gpusim.tile.mla import MlaShape, project_mla
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.projection import Projection
from gpusim.tile.remembered import remembered

__all__ = [
    "AttentionOp", "GemmOp", "MemoryOp", "MoeOp", "project_attention_op", "project_gemm_op", "project_memory_op", "project_moe_op",
]  # fmt: skip

#: Bytes of scales for each element, of either operand: fp8 as DeepSeek has it (FP32 for 128 elements of a row, and for 128 x 128 of the weights),
#: fp4 as NVFP4 (a byte for 16; PTX ISA, block scaling).
_SCALE_BYTES = {"fp8": (4.0 / 128, 4.0 / 128**2), "fp4": (1.0 / 16, 1.0 / 16)}


@dataclass(frozen=True)
class GemmOp:
    """``batch`` products of ``rows`` x ``columns`` over ``depth`` in one launch, results in 16 bits. ``block_scaled``: operands come with scales for
    blocks of elements (fp8, fp4). ``input_dtype``: of the first operand as it comes; where that is not ``dtype`` a kernel converts it first, as
    frameworks do for fp8, fp4 and int8 (as ``dtype``: it comes converted)."""

    rows: int
    columns: int
    depth: int
    dtype: str = "bf16"
    batch: int = 1
    block_scaled: bool = False
    input_dtype: str = "bf16"

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= 1 << 16:
            raise SpecError(f"a product's batch is {self.batch}, not between 1 and {1 << 16}")
        if self.block_scaled and self.dtype not in _SCALE_BYTES:
            raise SpecError(f"operands of {self.dtype!r} have no block scales: {', '.join(_SCALE_BYTES)} have")


@dataclass(frozen=True)
class AttentionOp:
    """``queries`` new tokens of each of ``batch`` sequences meet ``keys`` in all, themselves included, under a causal mask (``causal``). Phase "generation":
    one query a sequence, or a few. ``kind`` "gqa" (also of one head and of many) or "mla" (latent attention of DeepSeek: the latent of 512 and 64 rotated
    elements stands for keys and values; ``kv_heads`` and ``head_dim`` do not count). ``window``: only so many of the last keys count (0: all)."""

    phase: str
    batch: int
    queries: int
    keys: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str = "bf16"
    kv_dtype: str | None = None
    window: int = 0
    kind: str = "gqa"
    causal: bool = True

    def __post_init__(self) -> None:
        if self.phase not in ("generation", "context"):
            raise SpecError(f"an attention's phase is {self.phase!r}: known are generation, context")
        if self.kind not in ("gqa", "mla"):
            raise SpecError(f"an attention's kind is {self.kind!r}: known are gqa, mla")
        if not 1 <= self.queries <= self.keys:
            raise SpecError(f"an attention's queries are {self.queries}, not between 1 and its keys, {self.keys}")


@remembered
def project_gemm_op(spec: GpuSpec, op: GemmOp) -> Projection:
    """Time of ``op`` on ``spec``: the product, after the conversion of its first operand where there is one. Raises SpecError where the GPU has no
    such products."""
    a_bytes, b_bytes = (OPERANDS.get(op.dtype, (0.0, ""))[0] + more for more in _SCALE_BYTES[op.dtype]) if op.block_scaled else (0.0, 0.0)  # fmt: skip
    groups = (op.rows,) * op.batch if op.batch > 1 else ()
    shape = GemmShape(
        op.rows * op.batch, op.columns, op.depth, op.dtype, group_rows=groups, a_bytes=a_bytes, b_bytes=b_bytes
    )
    found = project_gemm(spec, shape)
    band = gemm_band(spec.generation, op.dtype, op.rows)
    validated, reason = band.validated, band.reason
    if op.batch > 1 and validated:
        validated, reason = False, "not validated: no measured products in batches"
    kind = f"{op.dtype}{' with block scales' if op.block_scaled else ''}"
    title = f"{f'{op.batch} products' if op.batch > 1 else 'product'} {op.rows} x {op.columns} x {op.depth}, {kind}"
    product = Projection(
        operator=title, gpu=spec.name, seconds=found.seconds, low_seconds=found.seconds / band.factor,
        high_seconds=found.seconds * band.factor, validated=validated, reason=reason, limiter=found.limiter,
        dtype=op.dtype, flops=shape.flops, dram_bytes=found.dram_bytes, l2_bytes=found.l2_bytes,
        launches=1 + (found.splits > 1),
    )  # fmt: skip
    own_bytes, input_bytes = OPERANDS[op.dtype][0], OPERANDS.get(op.input_dtype, (2.0, ""))[0]
    if input_bytes <= own_bytes or op.dtype == "tf32":
        return product
    elements = float(op.rows) * op.batch * op.depth
    converting = project_memory(
        spec, MemoryOp("quantize", input_bytes * elements, (a_bytes or own_bytes) * elements, op.rows * op.batch)
    )
    return joined(title, [converting, product], band.factor, validated, reason)


@remembered
def project_attention_op(spec: GpuSpec, op: AttentionOp) -> Projection:
    """Time of ``op`` on ``spec``, the write of new keys and values into the cache included. Raises SpecError where the GPU has no such products."""
    kv_dtype = op.kv_dtype or ""
    if op.kind == "mla":
        return project_mla(spec, MlaShape(op.batch, op.queries, op.keys, op.heads, op.phase, op.dtype, kv_dtype))
    if op.queries == 1:
        one = AttentionShape(op.batch, op.keys, op.heads, op.kv_heads, op.head_dim, op.dtype, op.window, kv_dtype)
        return project_attention(spec, one)
    many = ContextShape(
        op.batch, op.queries, op.heads, op.kv_heads, op.head_dim, op.dtype, op.keys - op.queries, op.window, op.causal, kv_dtype
    )  # fmt: skip
    return project_context(spec, many)


@remembered
def project_moe_op(spec: GpuSpec, op: MoeOp) -> Projection:
    """Time of one GPU's part of the experts of ``op``, routing and sums included. Raises SpecError where the GPU has no such products."""
    return project_moe(spec, op)


@remembered
def project_memory_op(spec: GpuSpec, op: MemoryOp) -> Projection:
    """Time of ``op`` on ``spec`` as a node of a CUDA graph."""
    return project_memory(spec, op)
