"""Weights shared out over replicas while training (ZeRO stage 3, PyTorch's fully sharded data parallel), and what
gathering them costs.

Mental model: every micro-batch gathers a layer's weights before its forward pass and again before its backward pass,
and sums and scatters its gradients behind that. The exchanges run a layer ahead on a stream of their own: NCCL's
channels take SMs from what is computed, and both share DRAM (:mod:`gpusim.tile.beside`,
:mod:`gpusim.collective.overlap`). A pass takes the longer of both; nothing hides the first gather and the last scatter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpusim.collective.overlap import rates_together
from gpusim.collective.shape import Collective
from gpusim.execution.interference import DRAM_BYTES_A_SENT
from gpusim.project.operator import Operator
from gpusim.project.part import Priced, priced, seconds_of
from gpusim.project.prices import Prices
from gpusim.tile.operators import GemmOp, MemoryOp

#: Weights are gathered in 16 bits, gradients summed in FP32 (PyTorch's MixedPrecision of llm-foundry's DEFAULT and of
#: torchtitan: param_dtype bfloat16, reduce_dtype float32).
_WEIGHT_BYTES, _SUM_BYTES = 2.0, 4.0


@dataclass(frozen=True)
class Sharded:
    """``items``: exchanges of one micro-batch and the kernels that lay gradients out for them; ``hidden_seconds``: of
    the exchanges beside computation, less what they slow it by."""

    items: tuple[Priced, ...]
    hidden_seconds: float


def sharded(
    prices: Prices, replicas: int, layers: int, of_layer: float, of_tables: float, forward: Iterable[Priced], backward: Iterable[Priced], apart: int = 1,
) -> Sharded:  # fmt: skip
    """Of ``layers`` layers with ``of_layer`` parameters on each GPU of a replica and ``of_tables`` of the vocabulary,
    beside a micro-batch's ``forward`` and ``backward`` passes; ``apart``: GPUs that share a layer."""
    gather, tables = _gather(replicas, of_layer, apart), _gather(replicas, of_tables, apart)
    scatter, scatter_tables = _scatter(replicas, of_layer, apart), _scatter(replicas, of_tables, apart)
    found = priced(
        [
            Operator("weights", "gathered", gather, 2 * layers), Operator("weights", "gathered", tables),
            Operator("weights", "gradients laid out", MemoryOp("copy", _WEIGHT_BYTES * of_layer, _SUM_BYTES * of_layer), layers),
            Operator("weights", "gradients scattered", scatter, layers), Operator("weights", "gradients scattered", scatter_tables),
        ],
        prices,
    )  # fmt: skip
    gather_seconds, scatter_seconds = prices.of(gather).seconds, prices.of(scatter).seconds
    ahead = layers - 1  # all but the first layer's
    hidden = hidden_seconds(prices, tuple(forward), gather, ahead * gather_seconds)
    hidden += hidden_seconds(
        prices, tuple(backward), gather, ahead * (gather_seconds + scatter_seconds) + gather_seconds
    )
    return Sharded(found, hidden)


def _gather(replicas: int, parameters: float, apart: int) -> Collective:
    return Collective("all_gather", replicas, max(1, int(_WEIGHT_BYTES * parameters)), "bf16", apart=apart)


def _scatter(replicas: int, parameters: float, apart: int) -> Collective:
    return Collective("reduce_scatter", replicas, max(1, int(_SUM_BYTES * parameters)), "fp32", apart=apart)


def hidden_seconds(prices: Prices, items: tuple[Priced, ...], like: Collective, seconds: float) -> float:
    """Of ``seconds`` of exchanges that go at the rate of ``like``, what the pass that computes ``items`` is not longer
    by."""
    computed = [item for item in items if not item.operator.communicates]
    alone = seconds_of(computed)
    if not alone or not seconds:
        return 0.0
    spec, dram = prices.spec, prices.spec.dram.stream_bytes_per_ns * 1e9
    channels = min(prices.node.channels, spec.sm_count - 1)
    moved = min(dram, DRAM_BYTES_A_SENT * like.wire_bytes / prices.of(like).seconds)
    beside = exchanged = 0.0
    for item in computed:
        if isinstance(item.operator.op, GemmOp):
            shares = prices.beside(item.operator.op, channels, moved)
            share, of_exchange = shares.product, shares.collective
        else:
            bytes_a_second = min(dram, item.projection.dram_bytes / item.projection.seconds)
            share, of_exchange = rates_together(bytes_a_second, moved, spec.sm_count, channels, dram)
        beside += item.seconds / share
        exchanged += item.seconds / share * of_exchange
    # While both run what is computed goes at alone / beside of its speed, exchanges at exchanged / beside of theirs.
    both = min(beside, seconds * beside / exchanged)
    done, sent = both * alone / beside, both * exchanged / beside
    return alone + seconds - (both + (alone - done) + (seconds - sent))
