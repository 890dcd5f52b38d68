"""The steps of one micro-batch on each pipeline stage, priced.

Mental model: a stage is its layers, the first with the embedding and the last with the head; between two stages a
micro-batch's activations are sent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from gpusim.collective.shape import Collective
from gpusim.project.alternating import Turns, taken_in_turns
from gpusim.project.attention import CORE
from gpusim.project.backward import backward_of
from gpusim.project.decoder import Decoder
from gpusim.project.footprint import parameters_of_stages
from gpusim.project.host import gap_seconds, host_seconds, launched_one_by_one, pieces_seconds
from gpusim.project.layers import blocks_of, embedding_operators, head_operators, layer_operators, stages_of
from gpusim.project.load import Load, halves_of, steps_of
from gpusim.project.operator import Operator
from gpusim.project.part import Priced, priced, seconds_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.sharded import sharded
from gpusim.tile.operators import GemmOp


@dataclass(frozen=True)
class Stage:
    """What one GPU of a pipeline stage launches for one micro-batch. ``taking_turns``: of halves that take turns, how
    long both take and how much of it is waited for other GPUs;
    ``beside_seconds``: of sums over GPUs beside products; ``host_seconds``: in which the host launches what no CUDA
    graph replays, ``gap_seconds``: that the GPU idles between that, or between pieces of graphs."""

    items: tuple[Priced, ...]
    taking_turns: Turns | None = None
    beside_seconds: float = 0.0
    host_seconds: float = 0.0
    gap_seconds: float = 0.0

    @property
    def device_seconds(self) -> float:
        """Launch after launch, or of both halves, if none waits for the host."""
        if self.taking_turns is None:
            return seconds_of(self.items) - self.beside_seconds
        return self.taking_turns.seconds

    @property
    def seconds(self) -> float:
        """The longer of what the GPU takes and what the host does."""
        return max(self.device_seconds + self.gap_seconds, self.host_seconds)

    @property
    def communication_seconds(self) -> float:
        """In collectives, hidden or not."""
        return sum(item.seconds for item in self.items if item.operator.communicates)

    @property
    def exposed_seconds(self) -> float:
        """In which it waits for other GPUs."""
        if self.taking_turns is None:
            return self.communication_seconds - self.beside_seconds
        return self.taking_turns.exposed_seconds


def stages_priced(config: Decoder, plan: Plan, prices: Prices) -> tuple[Stage, ...]:
    """All stages of one replica, for one micro-batch, all its steps."""
    shared_out = stages_of(config, plan.pipeline_parallel)
    found = []
    for number, kinds in enumerate(shared_out):
        operators: list[Operator] = []
        first, last = number == 0, number == len(shared_out) - 1
        turns = None
        loads: tuple[Load, ...] = steps_of(plan)
        if plan.overlap == "two-batch":
            loads = halves_of(plan)
            turns = taken_in_turns(prices, [blocks_of(config, plan, load, kinds, first, last) for load in loads])
            sends = [] if last else [Operator("pipeline", "send", _sent(config, plan, load)) for load in loads]
            turns = turns.followed_by(sum(prices.of(each.op).seconds for each in sends))
        launched, waited = 0.0, 0.0
        for load in loads:
            step = _stage(config, plan, load, Counter(kinds), first, last)
            operators += _trained(step, plan) if plan.phase == "train" else step
            if launched_one_by_one(plan, load.tokens, max(group.keys for group in load.groups)):
                alone = priced(step, prices)
                launched += host_seconds(alone, plan, all(group.queries == 1 for group in load.groups))
                waited += gap_seconds(alone, plan)
            elif plan.phase != "train":
                waited += pieces_seconds(plan, len(kinds))
        items = priced(operators, prices)
        beside = _beside_products(items, plan) if plan.overlap == "products" else 0.0
        if plan.shares_weights:
            items, beside = _with_weights_gathered(config, plan, prices, items, beside)
        found.append(Stage(items, turns, beside, launched, waited))
    return tuple(found)


def _beside_products(items: tuple[Priced, ...], plan: Plan) -> float:
    """Seconds of layers' sums that run beside products: in as many pieces as GPUs, of which the first to be gathered or
    the last to be scattered waits (Transformer Engine, its user buffers), and no more than the products last. A stage
    that works on pieces in turn sends one beside the next (Megatron-LM's overlap_p2p_comm, which needs them)."""
    gpus = plan.tensor_parallel
    layers = [item for item in items if item.operator.part not in ("embedding", "head", "pipeline")]
    sums = sum(item.seconds for item in layers if item.operator.communicates)
    products = sum(item.seconds for item in layers if isinstance(item.operator.op, GemmOp))
    sent = sum(item.seconds for item in items if item.operator.part == "pipeline") if plan.virtual_stages > 1 else 0.0
    return min(sums, products) * (gpus - 1) / gpus + sent


def _with_weights_gathered(
    config: Decoder, plan: Plan, prices: Prices, items: tuple[Priced, ...], beside: float
) -> tuple[tuple[Priced, ...], float]:
    (load,), (kinds,), (own,) = steps_of(plan), stages_of(config, 1), parameters_of_stages(config, plan)
    forward = priced(_stage(config, plan, load, Counter(kinds), True, True), prices)
    # The backward pass is what is there beside the forward pass.
    counts = {replace(item.operator, count=1): item.operator.count for item in forward}
    backward = [
        Priced(item.operator, item.projection) for item in items if replace(item.operator, count=1) not in counts
    ]
    tables = 2.0 * config.vocabulary * config.hidden / plan.tensor_parallel
    found = sharded(
        prices, plan.data_parallel, len(kinds), (own - tables) / len(kinds), tables, forward, backward, plan.tensor_parallel,
    )  # fmt: skip
    return items + found.items, beside + found.hidden_seconds


def _stage(config: Decoder, plan: Plan, load: Load, kinds: Counter, first: bool, last: bool) -> list[Operator]:
    operators: list[Operator] = []
    if first:
        operators += embedding_operators(config, plan, load)
    for kind, count in kinds.items():
        operators += [each.times(count) for each in layer_operators(config, plan, load, kind)]
    if last:
        operators += head_operators(config, plan, load, load.tokens if plan.phase == "train" else None)
    # Each piece of a stage's layers but the very last of all sends.
    sends = plan.virtual_stages - last
    if sends:
        operators.append(Operator("pipeline", "send to the next stage", _sent(config, plan, load), sends))
    return operators


def _sent(config: Decoder, plan: Plan, load: Load) -> Collective:
    """Each GPU of a stage sends its share of the rows to its peer; the next stage gathers them within itself. In
    training all replicas of a stage come before the next stage (Megatron-LM's order: layers' shares, replicas, stages),
    in serving each replica has its own GPUs."""
    apart = plan.tensor_parallel * (plan.data_parallel if plan.phase == "train" else 1)
    sent = max(1, 2 * load.tokens * config.hidden // plan.tensor_parallel)
    return Collective("send_recv", 2, sent, "bf16", apart=apart)


def _trained(forward: list[Operator], plan: Plan) -> list[Operator]:
    again: list[Operator] = []
    if plan.recompute == "full":
        again = [each for each in forward if each.part not in ("embedding", "head", "pipeline")]
        again = [Operator(each.part, f"{each.name}, recomputed", each.op, each.count) for each in again]
    elif plan.recompute == "selective":
        again = [
            Operator(each.part, f"{each.name}, recomputed", each.op, each.count)
            for each in forward
            if each.name in CORE
        ]
    return forward + again + backward_of(forward, added_up=not plan.shares_weights)
