"""One front for every operator of a model on one GPU: what it is in, a :class:`Projection` out.

Mental model: an operator is a shape and a dtype; which kernels a library makes of it is decided below (``gemm``,
``attention``, ``mla``, ``moe``, ``memory``, ``recurrent``). The same operator on the same GPU is projected once and
remembered. ``limit_watts``: another power limit than the board's (``inf``: none); a clock that falls slows all that
does not wait for DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention import AttentionShape, project_attention
from gpusim.tile.attention_context import ContextShape, project_context
from gpusim.tile.library import FRAMEWORKS
from gpusim.tile.memory import MemoryOp, project_memory
from gpusim.tile.mla import MlaShape, project_mla
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.product import GemmOp, project_product
from gpusim.tile.projection import Projection
from gpusim.tile.recurrent import RecurrentOp, project_recurrent
from gpusim.tile.remembered import remembered
from gpusim.tile.sorting import DrawOp, SortOp, project_draw, project_sort

__all__ = [
    "AttentionOp", "DrawOp", "GemmOp", "MemoryOp", "MoeOp", "RecurrentOp", "SortOp", "project_attention_op", "project_draw_op", "project_gemm_op", "project_memory_op", "project_moe_op", "project_recurrent_op", "project_sort_op",
]  # fmt: skip


@dataclass(frozen=True)
class AttentionOp:
    """``queries`` new tokens of each of ``batch`` sequences meet ``keys`` in all, themselves included, under a causal
    mask (``causal``). Phase "generation": one query a sequence, or a few. ``kind`` "gqa" (also of one head and of many)
    or "mla" (latent attention of DeepSeek: the latent of 512 and 64 rotated elements stands for keys and values;
    ``kv_heads`` and ``head_dim`` do not count). ``window``: only so many of the last keys count (0: all).
    ``each_head``: when text is generated, keys that heads share are read once for each of these. ``framework``: whose
    kernels (:data:`gpusim.tile.attention.FRAMEWORKS`; not of latent attention). ``cold``: keys and values of earlier
    tokens lie in DRAM even where they would fit into L2, when text is generated (not of latent attention). ``splits``:
    whether keys of a sequence may be split into parts then, ``splits_single_heads``: those of heads that share none too
    (:class:`gpusim.tile.attention.AttentionShape`). ``cached``: whether a context's new keys and values go into a
    cache; those of training do not."""

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
    each_head: bool = False
    framework: str = FRAMEWORKS[0]
    cold: bool = False
    splits: bool = True
    splits_single_heads: bool = False
    cached: bool = True

    def __post_init__(self) -> None:
        if self.phase not in ("generation", "context"):
            raise SpecError(f"an attention's phase is {self.phase!r}: known are generation, context")
        if self.kind not in ("gqa", "mla"):
            raise SpecError(f"an attention's kind is {self.kind!r}: known are gqa, mla")
        if self.kind == "mla" and (self.window or not self.causal):
            raise SpecError("latent attention (mla) is projected under a causal mask and without a window")
        if not 1 <= self.queries <= self.keys:
            raise SpecError(f"an attention's queries are {self.queries}, not between 1 and its keys, {self.keys}")


@remembered
def project_gemm_op(spec: GpuSpec, op: GemmOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec``: the product, after the conversion of its first operand where there is one. Raises
    SpecError where the GPU has no such products."""
    return project_product(spec, op, limit_watts=limit_watts)


@remembered
def project_attention_op(spec: GpuSpec, op: AttentionOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec``, the write of new keys and values into the cache included. Raises SpecError where the
    GPU has no such products."""
    kv_dtype = op.kv_dtype or ""
    if op.kind == "mla":
        latent = MlaShape(op.batch, op.queries, op.keys, op.heads, op.phase, op.dtype, kv_dtype)
        return project_mla(spec, latent, limit_watts=limit_watts)
    if op.queries == 1 and op.phase == "generation":
        one = AttentionShape(
            op.batch,
            op.keys,
            op.heads,
            op.kv_heads,
            op.head_dim,
            op.dtype,
            op.window,
            kv_dtype,
            op.each_head,
            op.framework,
            op.cold,
            op.splits,
            op.splits_single_heads,
        )
        return project_attention(spec, one, limit_watts=limit_watts)
    many = ContextShape(
        op.batch, op.queries, op.heads, op.kv_heads, op.head_dim, op.dtype, op.keys - op.queries, op.window, op.causal, kv_dtype,
        op.framework, cached=op.cached,
    )  # fmt: skip
    return project_context(spec, many, limit_watts=limit_watts)


@remembered
def project_moe_op(spec: GpuSpec, op: MoeOp, limit_watts: float | None = None) -> Projection:
    """Time of one GPU's part of the experts of ``op``, routing and sums included. Raises SpecError where the GPU has no
    such products."""
    return project_moe(spec, op, limit_watts=limit_watts)


@remembered
def project_memory_op(spec: GpuSpec, op: MemoryOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec`` as a node of a CUDA graph."""
    return project_memory(spec, op, limit_watts=limit_watts)


@remembered
def project_recurrent_op(spec: GpuSpec, op: RecurrentOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec``, all its launches as nodes of a CUDA graph."""
    return project_recurrent(spec, op, limit_watts=limit_watts)


@remembered
def project_draw_op(spec: GpuSpec, op: DrawOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec``."""
    return project_draw(spec, op, limit_watts=limit_watts)


@remembered
def project_sort_op(spec: GpuSpec, op: SortOp, limit_watts: float | None = None) -> Projection:
    """Time of ``op`` on ``spec``."""
    return project_sort(spec, op, limit_watts=limit_watts)
