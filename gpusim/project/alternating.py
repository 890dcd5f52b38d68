"""Halves of a batch that take turns: while one computes the other's collectives run.

Mental model: each half goes through the layers by itself; a GPU computes one half's operators up to its next
collective, then the other's. What both take is replayed (:mod:`gpusim.execution`): collectives have their formulas'
times alone, and while one runs beside a computation both are slower, products as the machine says that runs both
(:mod:`gpusim.tile.beside`). Halves have smaller products and messages, which is in their prices: taking turns may cost
more than it hides.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpusim.collective.shape import Collective
from gpusim.execution.interference import Beside, Rates, rates_by_figures
from gpusim.execution.replay import replayed
from gpusim.execution.trace import ExecutionTrace, Node
from gpusim.project.operator import Operator
from gpusim.project.prices import Prices
from gpusim.tile.beside import shares_beside
from gpusim.tile.operators import GemmOp


@dataclass(frozen=True)
class Turns:
    """``seconds`` of both halves, of which ``exposed_seconds`` nothing is computed while other GPUs are waited for."""

    seconds: float
    exposed_seconds: float

    def followed_by(self, waiting_seconds: float) -> Turns:
        """With a wait for other GPUs that nothing hides."""
        return replace(
            self, seconds=self.seconds + waiting_seconds, exposed_seconds=self.exposed_seconds + waiting_seconds
        )


def taken_in_turns(prices: Prices, halves: Sequence[list[list[Operator]]]) -> Turns:
    """Of halves' operators, layer by layer (:func:`gpusim.project.layers.blocks_of`), on one of GPUs that all do the
    same."""
    nodes: list[Node] = []
    products: dict[int, GemmOp] = {}
    groups: dict[str, tuple[int, ...]] = {}
    last: list[int | None] = [None] * len(halves)
    segments = [_segments([operator for block in blocks for operator in block]) for blocks in halves]
    # The least id of those that are ready goes first: one half's operators up to a collective, then the other's.
    for turn in itertools.zip_longest(*segments, fillvalue=()):
        for half, segment in enumerate(turn):
            for operator in segment:
                for _ in range(operator.count if isinstance(operator.op, Collective) else 1):
                    before = last[half]
                    node = _node(prices, len(nodes), operator, () if before is None else (before,), groups)
                    if isinstance(operator.op, GemmOp):
                        products[node.id] = operator.op
                    nodes.append(node)
                    last[half] = node.id
    library = next(
        (
            operator.op.library
            for part in segments[0]
            for operator in part
            if isinstance(operator.op, Collective) and operator.op.kind == "all_reduce"
        ),
        "nccl",
    )
    trace = ExecutionTrace(0, nodes, groups, "halves of a batch")
    found = replayed(prices.spec, prices.node, [trace], {}, library=library, alone=True, rates=_rates(prices, products))
    return Turns(found.seconds, found.times()[0].exposed)


def _segments(operators: Sequence[Operator]) -> list[list[Operator]]:
    found: list[list[Operator]] = [[]]
    for operator in operators:
        found[-1].append(operator)
        if operator.communicates:
            found.append([])
    return found


def _node(
    prices: Prices, number: int, operator: Operator, depends: tuple[int, ...], groups: dict[str, tuple[int, ...]]
) -> Node:
    op, name = operator.op, f"{operator.part}: {operator.name}"
    if isinstance(op, Collective):
        group = f"of {op.gpus}"
        groups[group] = tuple(range(op.gpus))
        size = -(-op.message_bytes // op.gpus) if op.kind == "all_gather" else op.message_bytes
        return Node(
            number, name, "collective", depends, None, "collectives", exchange=op.kind, message_bytes=size, group=group
        )
    found = prices.of(op)
    return Node(
        number,
        name,
        "compute",
        depends,
        operator.count * found.seconds,
        "compute",
        moved_bytes=operator.count * found.dram_bytes,
    )


def _rates(prices: Prices, products: dict[int, GemmOp]) -> Rates:
    """Products as the machine says that runs both, of others what their bytes say."""
    known: dict[tuple[GemmOp, Beside], tuple[float, float]] = {}
    others = rates_by_figures(prices.spec)

    def rates(node: Node, beside: Beside) -> tuple[float, float]:
        op = products.get(node.id)
        if op is None:
            return others(node, beside)
        if (op, beside) not in known:
            shares = shares_beside(prices.spec, op, beside.channels, beside.dram_bytes_per_second)
            known[op, beside] = shares.product, shares.collective
        return known[op, beside]

    return rates
