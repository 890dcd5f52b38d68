"""Requests from their prompt to their last token: time to first token, time per output token, what a batch gives.

Mental model: all of a batch's prompts are read, then all sequences generate side by side. A token's time grows nearly
linearly with the keys, so that first, middle and last tokens stand for all (Simpson's rule). Where the framework is
named, its host's work between two steps is added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.errors import UsageError
from gpusim.project.bands import served_factor, widened
from gpusim.project.decoder import Decoder
from gpusim.project.frameworks import framework_of, pages_held
from gpusim.project.part import Interval
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import ModelProjection, project_model

#: Frameworks whose published requests are what their steps' intervals were set by (tools/model_error.py): static
#: batches without a scheduler.
_OF_STEPS = ("trtllm",)


@dataclass(frozen=True)
class RequestProjection:
    """``first``: the prefill; ``middle``: the step of the middle token; ``per_token``: mean of all tokens' steps;
    ``seconds``: from a batch's prompts to its last tokens; ``joules``: of all of that."""

    first: ModelProjection
    middle: ModelProjection
    per_token: Interval
    seconds: Interval
    joules: float

    @property
    def output_tokens_per_second(self) -> float:
        """Of all replicas."""
        plan = self.first.plan
        return plan.batch * plan.output / self.seconds.seconds


def project_request(prices: Prices, config: Decoder, plan: Plan) -> RequestProjection:
    """``plan`` with phase "request". Raises as :func:`gpusim.project.whole.project_model`, and UsageError where no
    token is generated."""
    if not plan.output:
        raise UsageError("a request needs the number of tokens that it generates: give --output-tokens")
    first = project_model(prices, config, replace(plan, phase="prefill"))
    lengths = (plan.sequence + 1, plan.sequence + (plan.output + 1) // 2, plan.sequence + plan.output)
    steps = [
        project_model(prices, config, replace(plan, phase="decode", sequence=length, chunk=0)) for length in lengths
    ]
    weights = (1 / 6, 4 / 6, 1 / 6)
    # Who names a framework asks for what its clients see: the work of its host between steps, too.
    framework, name = framework_of(plan), prices.spec.name

    def waited(step: ModelProjection) -> float:
        if not plan.framework:
            return 0.0
        seconds = step.step.seconds
        pages = pages_held([(plan.replica_batch, 1, step.plan.sequence)], plan.page_tokens)
        shared = plan.tensor_parallel > 1
        return framework.step_of(seconds, plan.replica_batch, name, step.launch_seconds, pages, shared) - seconds

    host = sum(weight * waited(step) for weight, step in zip(weights, steps, strict=True))

    def mean(of: str) -> float:
        return host + sum(weight * getattr(step.step, of) for weight, step in zip(weights, steps, strict=True))

    validated = all(step.step.validated for step in steps)
    per_token = Interval(mean("seconds"), mean("low_seconds"), mean("high_seconds"), validated)
    # The first token comes with the prefill.
    rest = plan.output - 1
    whole = Interval(
        *(
            host + getattr(first.step, of) + rest * getattr(per_token, of)
            for of in ("seconds", "low_seconds", "high_seconds")
        ),
        validated and first.step.validated,
    )
    if plan.framework and plan.framework not in _OF_STEPS:
        factor = served_factor(plan.framework, config.experts is not None, prices.spec.generation)
        per_token, whole = widened(per_token, factor), widened(whole, factor)
    joules = first.joules + rest * sum(weight * step.joules for weight, step in zip(weights, steps, strict=True))
    # The cache is fullest at a request's end, the activations are largest while its prompt is read.
    held = replace(
        steps[-1].footprint,
        activation_bytes=max(first.footprint.activation_bytes, steps[-1].footprint.activation_bytes),
    )
    return RequestProjection(replace(first, footprint=held), steps[1], per_token, whole, joules)
