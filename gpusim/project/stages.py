"""The steps of one micro-batch on each pipeline stage, priced.

Mental model: a stage is its layers, the first with the embedding and the last with the head; between two stages a micro-batch's activations are sent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gpusim.collective.shape import Collective
from gpusim.project.backward import backward_of
from gpusim.project.decoder import Decoder
from gpusim.project.layers import embedding_operators, head_operators, layer_operators, stages_of
from gpusim.project.load import Load, steps_of
from gpusim.project.operator import Operator
from gpusim.project.part import Priced, priced, seconds_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices


@dataclass(frozen=True)
class Stage:
    """What one GPU of a pipeline stage launches for one micro-batch; ``seconds``: of it."""

    items: tuple[Priced, ...]

    @property
    def seconds(self) -> float:
        """Launch after launch."""
        return seconds_of(self.items)


def stages_priced(config: Decoder, plan: Plan, prices: Prices) -> tuple[Stage, ...]:
    """All stages of one replica, for one micro-batch, all its steps."""
    shared_out = stages_of(config, plan.pipeline_parallel)
    found = []
    for number, kinds in enumerate(shared_out):
        operators: list[Operator] = []
        for load in steps_of(plan):
            step = _stage(config, plan, load, Counter(kinds), number == 0, number == len(shared_out) - 1)
            operators += _trained(step, plan) if plan.phase == "train" else step
        found.append(Stage(priced(operators, prices)))
    return tuple(found)


def _stage(config: Decoder, plan: Plan, load: Load, kinds: Counter, first: bool, last: bool) -> list[Operator]:
    operators: list[Operator] = []
    if first:
        operators += embedding_operators(config, plan, load)
    for kind, count in kinds.items():
        operators += [each.times(count) for each in layer_operators(config, plan, load, kind)]
    if last:
        operators += head_operators(config, plan, load, load.tokens if plan.phase == "train" else None)
    else:
        # Each GPU of a stage sends its share of the rows to its peer; the next stage gathers them within itself.
        sent = max(1, 2 * load.tokens * config.hidden // plan.tensor_parallel)
        operators.append(Operator("pipeline", "send to the next stage", Collective("send_recv", 2, sent, "bf16")))
    return operators


def _trained(forward: list[Operator], plan: Plan) -> list[Operator]:
    again: list[Operator] = []
    if plan.recompute == "full":
        again = [each for each in forward if each.part not in ("embedding", "head", "pipeline")]
        again = [Operator(each.part, f"{each.name}, recomputed", each.op, each.count) for each in again]
    elif plan.recompute == "selective":
        again = [
            Operator(each.part, f"{each.name}, recomputed", each.op, each.count)
            for each in forward
            if each.name == "attention"
        ]
    return forward + again + backward_of(forward)
