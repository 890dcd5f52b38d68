"""A projected step as execution traces, one a GPU: each operator a node with its duration, each exchange a node with
its size and group.

Mental model: ranks are numbered as Megatron does, tensor parallel first, then replicas, then pipeline stages. A stage's
operators follow each other layer by layer; micro-batches pass forward, or in training one forward one backward (1F1B).
A send is not waited for; sums of gradients begin, layer by layer, as the last micro-batch's backward pass makes them,
and the optimizer waits for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpusim.collective.shape import Collective
from gpusim.errors import UsageError
from gpusim.execution.trace import ExecutionTrace, Node
from gpusim.project.attention import CORE
from gpusim.project.backward import backward_of, gradient_sums, optimizer_step
from gpusim.project.decoder import Decoder
from gpusim.project.footprint import kept_parameters, parameters_by_copies
from gpusim.project.layers import blocks_of, stages_of
from gpusim.project.load import steps_of
from gpusim.project.operator import Operator
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices

_MOST_NODES = 1 << 22


@dataclass(frozen=True)
class StepTraces:
    """``traces``: of each rank; ``groups``: members by the group's name, a number as ASTRA-sim wants it."""

    traces: list[ExecutionTrace]
    groups: dict[str, tuple[int, ...]]


def step_traces(prices: Prices, config: Decoder, plan: Plan, ranks: Iterable[int] | None = None) -> StepTraces:
    """The traces of ``ranks`` (None: all). Raises UsageError for a request, which is many steps, and for a plan that
    the network cannot be shared out by."""
    if plan.phase == "request":
        raise UsageError("a request is many steps: a trace is of one, give --phase prefill, decode, mixed or train")
    if plan.virtual_stages > 1 or plan.overlap == "products":
        raise UsageError(
            "traces of stages in pieces and of sums beside products are not written: leave out --virtual-stages and --overlap"
        )
    if plan.shares_weights:
        raise UsageError("traces of weights shared out over replicas are not written: give --zero 1")
    plan.check(config)
    groups = _groups(plan)
    shared_out = stages_of(config, plan.pipeline_parallel)
    each = plan.micro_batches * len(steps_of(plan)) * max(len(kinds) for kinds in shared_out)
    if 64 * each > _MOST_NODES:
        raise UsageError(f"{each:,} layers of all micro-batches in one trace: that is too many; give fewer --micro-batches or a larger --chunk")  # fmt: skip
    programs = [_program(prices, config, plan, stage) for stage in range(plan.pipeline_parallel)]
    traces = []
    for rank in range(plan.gpus) if ranks is None else ranks:
        nodes = [_of_rank(node, rank, plan, groups) for node in programs[rank // plan.stage_gpus]]
        traces.append(ExecutionTrace(rank, nodes, {}, f"{config.name}, rank {rank}"))
    return StepTraces(traces, {name: members for (_, name), members in groups.items()})


def _groups(plan: Plan) -> dict[tuple[str, str], tuple[int, ...]]:
    """By kind ("tp", "ep", "dp" with how many have the same parameters) and name."""
    tp, dp, pp, ep = plan.tensor_parallel, plan.data_parallel, plan.pipeline_parallel, plan.expert_parallel
    every = plan.stage_gpus
    found: dict[tuple[str, str], tuple[int, ...]] = {}

    def add(kind: str, members: Iterable[int]) -> None:
        # ASTRA-sim takes group 0 as all ranks.
        found[kind, str(len(found) + 1)] = tuple(members)

    def copied(base: int, copies: int) -> None:
        apart = every // copies
        for place in range(apart):
            add(f"dp {copies}", range(base + place, base + every, apart))

    for stage in range(pp):
        base = stage * every
        if tp > 1:
            for replica in range(dp):
                add("tp", range(base + replica * tp, base + replica * tp + tp))
        if dp > 1:
            copied(base, dp)
        if ep > tp:
            for begin in range(base, base + every, ep):
                add("ep", range(begin, begin + ep))
            if plan.phase == "train" and plan.expert_copies > 1:
                copied(base, plan.expert_copies)
    return found


def _of_rank(node: Node, rank: int, plan: Plan, groups: dict[tuple[str, str], tuple[int, ...]]) -> Node:
    """A stage's node as this rank has it: in its own group, with its own peer."""
    if node.kind == "collective":
        name = next(name for (kind, name), members in groups.items() if kind == node.group and rank in members)
        return replace(node, group=name, stream=f"collectives of {name}")
    if node.kind in ("send", "receive"):
        peer = rank + node.peer * plan.stage_gpus
        return replace(node, peer=peer, stream=f"sends to {peer}" if node.kind == "send" else f"receives from {peer}")
    return node


class Chain:
    """Nodes that follow each other, with what branches off."""

    def __init__(self, prices: Prices) -> None:
        self.nodes: list[Node] = []
        self.last: int | None = None
        self._prices = prices

    def add(
        self, operator: Operator, *, after: Iterable[int] = (), aside: bool = False, number: int | None = None
    ) -> int:
        """The id of the operator's last node. ``aside``: the chain does not wait for it."""
        depends: tuple[int, ...] = tuple(sorted({*after, *(() if self.last is None else (self.last,))}))
        name, number = f"{operator.part}: {operator.name}", len(self.nodes) if number is None else number
        if isinstance(operator.op, Collective):
            for count in range(operator.count):
                node = collective_node(number + count, name, operator, depends)
                self.nodes.append(node)
                depends = (node.id,)
        else:
            projection = self._prices.of(operator.op)
            count = operator.count
            self.nodes.append(
                Node(number, name, "compute", depends, count * projection.seconds, "compute", count * projection.flops, count * projection.dram_bytes)
            )  # fmt: skip
        if not aside:
            self.last = self.nodes[-1].id
        return self.nodes[-1].id

    def pass_on(self, kind: str, stages: int, message_bytes: int, tag: int) -> None:
        """A send to the stage so many further (not waited for), or a receive from there."""
        depends = () if self.last is None else (self.last,)
        node = Node(len(self.nodes), f"pipeline: {kind}", kind, depends, None, "", message_bytes=message_bytes, peer=stages, tag=tag)  # fmt: skip
        self.nodes.append(node)
        if kind == "receive":
            self.last = node.id


def collective_node(number: int, name: str, operator: Operator, depends: tuple[int, ...]) -> Node:
    """With the kind of its group where a rank's group will stand."""
    op = operator.op
    assert isinstance(op, Collective)
    of_experts = operator.name.startswith(("dispatch", "combine"))  # backward, too
    kind = "ep" if of_experts else f"dp {op.gpus}" if operator.part == "optimizer" else "tp"
    size = -(-op.message_bytes // op.gpus) if op.kind == "all_gather" else op.message_bytes
    return Node(number, name, "collective", depends, None, f"collectives of {kind}", exchange=op.kind, message_bytes=size, group=kind)  # fmt: skip


def _program(prices: Prices, config: Decoder, plan: Plan, stage: int) -> list[Node]:
    shared_out = stages_of(config, plan.pipeline_parallel)
    first, last, chain = stage == 0, stage == len(shared_out) - 1, Chain(prices)
    loads = steps_of(plan)

    def forward(micro: int) -> None:
        for number, load in enumerate(loads):
            tag, sent = (
                2 * (micro * len(loads) + number),
                max(1, 2 * load.tokens * config.hidden // plan.tensor_parallel),
            )
            if not first:
                chain.pass_on("receive", -1, sent, tag)
            for block in blocks_of(config, plan, load, shared_out[stage], first, last):
                for operator in block:
                    chain.add(operator)
            if not last:
                chain.pass_on("send", 1, sent, tag)

    if plan.phase != "train":
        for micro in range(plan.micro_batches):
            forward(micro)
        return chain.nodes
    (load,) = loads
    sent = max(1, 2 * load.tokens * config.hidden // plan.tensor_parallel)
    blocks = blocks_of(config, plan, load, shared_out[stage], first, last)
    held = [(some / len(blocks), copies) for some, copies in parameters_by_copies(config, plan)]
    buckets: list[int] = []

    def backward(micro: int) -> None:
        if not last:
            chain.pass_on("receive", 1, sent, 2 * micro + 1)
        for block in reversed(blocks):
            for operator in [*_recomputed(plan, block), *backward_of(block)]:
                chain.add(operator)
            if micro == plan.micro_batches - 1:
                for each in gradient_sums(held, plan.stage_gpus):
                    buckets.append(chain.add(each, aside=True))
        if not first:
            chain.pass_on("send", -1, sent, 2 * micro + 1)

    for forwards, micro in _one_forward_one_backward(plan.micro_batches, len(shared_out) - stage - 1):
        (forward if forwards else backward)(micro)
    chain.add(optimizer_step(kept_parameters(config, plan)), after=buckets)
    return chain.nodes


def _recomputed(plan: Plan, block: list[Operator]) -> list[Operator]:
    """Of a block, before its backward pass."""
    if plan.recompute == "none" or (block and block[0].part in ("embedding", "head")):
        return []
    return [replace(each, name=f"{each.name}, recomputed") for each in block if plan.recompute == "full" or each.name in CORE]  # fmt: skip


def _one_forward_one_backward(micro_batches: int, stages_behind: int) -> Iterator[tuple[bool, int]]:
    """Whether forward, and of which micro-batch (Narayanan et al., Efficient large-scale language model training on GPU
    clusters (2021), section 2.2)."""
    ahead = min(micro_batches, stages_behind)
    for micro in range(ahead):
        yield True, micro
    for micro in range(ahead, micro_batches):
        yield True, micro
        yield False, micro - ahead
    for micro in range(micro_batches - ahead, micro_batches):
        yield False, micro
