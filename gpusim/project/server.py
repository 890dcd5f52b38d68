"""What an inference server does at a time: sequences that it holds, new tokens of a step, batches that it has captured
as CUDA graphs.

Mental model: two budgets and two habits. A sequence is admitted while memory and the framework's own limit have room
for it; a step takes a token of each sequence in progress and of waiting prompts what is left of the step's budget, in
pieces or whole. The figures are the frameworks' defaults (:mod:`gpusim.project.frameworks`); whoever sets others gives
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpusim.errors import NoDataError, UsageError
from gpusim.project.decoder import Decoder
from gpusim.project.footprint import Footprint, footprint_of
from gpusim.project.frameworks import framework_of
from gpusim.project.plan import Plan
from gpusim.project.tuned import tuned

_NO_LIMIT = 1 << 20


@dataclass(frozen=True)
class Server:
    """``sequences``: in progress at once in one engine (a replica's pipeline stage turn); ``tokens``: new ones of a
    step; ``chunked``: whether a prompt is read in pieces; ``mixed``: whether prompts are read beside the next tokens of
    others, or those wait; ``graphs``: sizes to which batches of generation are padded, () for none;
    ``memory_sequences``: that memory alone would hold;
    ``footprint``: with all of them in progress."""

    sequences: int
    tokens: int
    chunked: bool
    mixed: bool
    graphs: tuple[int, ...]
    memory_sequences: int
    footprint: Footprint

    def padded(self, batch: int) -> int:
        """Sequences of the graph that runs ``batch`` of them."""
        return next((size for size in self.graphs if size >= batch), batch)


def as_many_as_fit(data_parallel: int) -> int:
    """The batch of a plan for so many replicas that limits nothing: memory and the framework do."""
    return _NO_LIMIT // data_parallel * data_parallel


def server_of(
    config: Decoder, plan: Plan, gpu: str, capacity_bytes: float, tokens: int | None = None, memory_share: float | None = None,
) -> Server:  # fmt: skip
    """As the plan's framework sets itself up on GPUs called ``gpu`` of ``capacity_bytes`` for prompts of
    ``plan.sequence`` and answers of ``plan.output`` tokens, ``plan.batch`` of them in progress at most unless that is
    :func:`as_many_as_fit`. ``tokens``: of a step, in place of the framework's own; ``memory_share``: in place of the
    framework's. Raises NoDataError where not one sequence fits, UsageError where no step can read a prompt."""
    framework = framework_of(plan)
    share = framework.memory_share if memory_share is None else memory_share
    own = replace(
        plan,
        phase="decode",
        batch=plan.data_parallel,
        sequence=plan.sequence + plan.output,
        output=0,
        chunk=0,
        micro_batches=1,
    )
    own = replace(own, page_tokens=framework.page_tokens)
    # Where pages are given out as they fill, sequences at all stages of their answers hold half of those.
    reserved = own if framework.keeps_ends else replace(own, sequence=plan.sequence + -(-plan.output // 2))
    one = footprint_of(config, reserved, capacity_bytes)
    stages = plan.pipeline_parallel
    if plan.served_by == "trtllm":
        limit, budget = tuned(config, plan, capacity_bytes, share)
    else:
        limit, budget = framework.limits(gpu, capacity_bytes)
    most = limit
    if plan.batch < as_many_as_fit(plan.data_parallel):
        limit = max(1, plan.batch // (plan.data_parallel * stages))
    chunked = framework.chunked
    if not chunked and tokens is None:
        budget = max(budget, plan.sequence + limit)  # without pieces a step has room for a prompt
    budget = budget if tokens is None else tokens
    if not chunked and budget < plan.sequence:
        raise UsageError(
            f"a step of {budget} tokens cannot read a prompt of {plan.sequence}: give --step-tokens {plan.sequence} or more"
        )
    step = footprint_of(config, replace(own, phase="mixed", groups=((1, budget, budget),)), capacity_bytes)
    free = capacity_bytes - one.weight_bytes - one.framework_bytes - step.activation_bytes
    free = share * free if framework.of_free else free - (1.0 - share) * capacity_bytes
    held = math.floor(free / one.kv_bytes) if free > 0 else 0
    if held < 1:
        raise NoDataError(
            f"{config.name} on {gpu}: {max(0.0, free) / 1e9:.3g} GB are left for keys and values, a sequence of {plan.sequence + plan.output} tokens takes "
            f"{one.kv_bytes / 1e9:.3g}: give more GPUs, a smaller --dtype or --kv-dtype"
        )
    # The stages of a pipeline work on as many groups of sequences in turn.
    held = max(1, held // stages)
    at_once = min(limit, held)
    whole = replace(one, kv_bytes=at_once * stages * one.kv_bytes, activation_bytes=step.activation_bytes)
    return Server(at_once, budget, chunked, framework.mixed, _captured(framework.graphs, most), held, whole)


def _captured(graphs: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Of the batches that are asked for those that a server of ``most`` sequences captures: none larger, and ``most``
    itself in place of the first that is (tensorrt_llm/_torch/pyexecutor/model_engine.py,
    _filter_cuda_graph_batch_sizes)."""
    found = tuple(size for size in graphs if size <= most)
    return (*found, most) if len(found) < len(graphs) and (not found or found[-1] < most) else found
