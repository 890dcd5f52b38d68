"""The backward pass of a layer, and the optimizer's step, as operators.

Mental model: each product has two of the same size behind it (for the gradient of its input and of its weights, or of
both inputs), and gradients of weights are added up in FP32; attention has five products where forward has two (Dao,
FlashAttention-2 (2023), section 3.1), at a lower rate; experts and linear attention take twice their forward pass (of
the latter a guess); element-wise operators read their input again beside the gradient. Sums over GPUs come once more.
Recomputation runs the forward pass again before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpusim.collective.shape import Collective
from gpusim.project.earlier_attention import EarlierAttention
from gpusim.project.operator import FUSED_LOSS, Operator
from gpusim.tile.operators import AttentionOp, GemmOp, MemoryOp, MoeOp, RecurrentOp

#: A backward attention as so many forward ones: two and a half times the operations, at 196 TFLOP/s of an A100 where
#: forward reaches 230 (FlashAttention-2, section 4.1), make 2.9; on other GPUs a guess.
_ATTENTION_PASSES = 3
#: Of a gradient's sum over micro-batches, in which Megatron-LM's products of weights accumulate
#: (gradient_accumulation_fusion), as footprints have it.
_SUM_BYTES = 4.0
#: Adam in mixed precision: reads gradient, master copy, mean, variance (4 bytes each), writes the three back and the
#: 16-bit weight.
_ADAM_READ_BYTES, _ADAM_WRITTEN_BYTES = 16.0, 14.0


def backward_of(operators: Iterable[Operator], *, added_up: bool = True) -> list[Operator]:
    """Of forward ``operators``, the last first; ``added_up``: whether products of weights' gradients add them to sums
    in FP32, which they do not where each micro-batch's are scattered."""
    found: list[Operator] = []
    for operator in reversed(list(operators)):
        found += _behind(operator, added_up)
    return found


def _behind(operator: Operator, added_up: bool) -> list[Operator]:
    op, part, name, count = operator.op, operator.part, f"{operator.name}, backward", operator.count
    if name == f"{FUSED_LOSS}, backward":
        return []
    if isinstance(op, GemmOp):
        of_input = GemmOp(op.rows, op.depth, op.columns, op.dtype, batch=op.batch)
        of_weights = GemmOp(op.columns, op.depth, op.rows, op.dtype, batch=op.batch)
        found = [Operator(part, name, of_input, count), Operator(part, name, of_weights, count)]
        if added_up and op.batch == 1:  # attention's products have no weights
            found.append(Operator(part, f"{name}, added up", _added_up(op.columns * op.depth), count))
        return found
    if isinstance(op, MemoryOp):
        more = op.read_bytes + op.written_bytes
        return [Operator(part, name, MemoryOp(op.kind, more, op.written_bytes), count)]
    if isinstance(op, EarlierAttention):
        return [Operator(part, name, replace(op, backward=True), _ATTENTION_PASSES * count)]
    if isinstance(op, AttentionOp):
        return [Operator(part, name, op, _ATTENTION_PASSES * count)]
    if isinstance(op, MoeOp | RecurrentOp):
        return [Operator(part, name, op, 2 * count)]
    return [Operator(part, name, op, count)]


def _added_up(weights: int) -> MemoryOp:
    """What a product that adds its results to sums in FP32 moves more than one that writes them in 16 bits. Tiles of a
    wave end together, so that their sums are read and written while no other multiplies."""
    return MemoryOp("copy", _SUM_BYTES * weights, (_SUM_BYTES - 2.0) * weights)


def optimizer_step(parameters: float) -> Operator:
    """Of so many parameters of one GPU."""
    return Operator(
        "optimizer", "Adam", MemoryOp("copy", _ADAM_READ_BYTES * parameters, _ADAM_WRITTEN_BYTES * parameters)
    )


def gradient_sums(held: Iterable[tuple[float, int]], stage_gpus: int) -> list[Operator]:
    """Of 16-bit gradients: of so many parameters over so many GPUs that have the same ones, evenly apart in a stage of
    ``stage_gpus``."""
    return [
        Operator(
            "optimizer",
            "gradients over replicas",
            Collective("all_reduce", copies, max(1, int(2 * parameters)), "bf16", apart=stage_gpus // copies),
        )
        for parameters, copies in held
        if copies > 1 and parameters
    ]
