"""A whole model's projection as one self-contained HTML page for people who decide: what, how sure, what limits, what
would help, from which sources.

Mental model: the template (``model.html``) is the page, this file picks what goes into it. Texts that may come from
anywhere (a model's name) are escaped by the template engine; no script, nothing from the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from gpusim import __version__
from gpusim.errors import ToolchainError
from gpusim.gpus.load import Claim
from gpusim.gpus.spec import GpuSpec
from gpusim.project.limits import Remedy, limiters
from gpusim.project.part import Interval
from gpusim.project.records import STEP, not_validated, operator_records, part_shares
from gpusim.project.requests import RequestProjection
from gpusim.project.serving import ServingProjection
from gpusim.project.shown import Projected, first_of, listed, step_of
from gpusim.project.text import lines_of
from gpusim.project.whole import ModelProjection

try:
    from jinja2 import Environment, StrictUndefined
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the HTML report needs matplotlib and jinja2: pip install 'gpusim[report]'") from error

#: Operators that the page lists; the rest is one line.
MOST_OPERATORS = 20


def render_model(
    found: Projected, remedies: Sequence[Remedy], spec: GpuSpec, changed: Projected | None = None,
    assumed: Mapping[str, Claim] | None = None, conditions: Sequence[tuple[str, str]] = (), network_source: str = "", evidence: Mapping[str, int] | None = None,
) -> str:  # fmt: skip
    """The page of one projection; ``remedies`` as :func:`gpusim.project.limits.remedies` finds them. ``changed``: the
    same with some of the GPU's values changed, to stand beside it; ``assumed``: what the GPU's file states otherwise
    than the built-in GPU below it, by key; ``conditions``: lines of the run that the plan does not have;
    ``network_source``: of the network's sizes; ``evidence``: kind -> how many of the GPU's values are of that kind."""
    shown, first = step_of(found), first_of(found)
    operators = operator_records(shown)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("gpusim.report").joinpath("model.html").read_text("utf-8"))
    held = first.footprint
    return template.render(
        name=first.network, gpus=f"{first.plan.gpus} x {first.gpu}", title=spec.title if hasattr(spec, "title") else spec.name, version=__version__,
        headline=headline(found), prompts=_prompts(found), numbers=_numbers(found), facts=_facts(found, changed, conditions), changed=changed is not None, assumed=sorted((assumed or {}).items()), what_is_listed=listed(found, STEP),
        operators=operators[:MOST_OPERATORS], rest=_rest(operators[MOST_OPERATORS:]), parts=part_shares(shown), limits=limiters(shown),
        remedies=[(each.name, 100 * each.saved, ", ".join(each.settings)) for each in remedies], unknown=not_validated(shown),
        bases=sorted({row["basis"] for row in operators if row["validated"]}),
        memory=[
            (name, amount / 1e9, 100 * amount / max(held.capacity_bytes, held.total_bytes))
            for name, amount in (
                ("weights", held.weight_bytes), ("keys and values", held.kv_bytes), ("activations", held.activation_bytes),
                ("gradients and optimizer", held.training_bytes), ("framework (a guess)", held.framework_bytes),
            ) if amount
        ],
        held=held, left_out=_left_out(found), hidden=_hidden(shown), of_micro_batch=_of_micro_batch(shown),
        network_source=network_source, evidence=", ".join(f"{count} {kind}" for kind, count in (evidence or {}).items()),
    )  # fmt: skip


def headline(found: Projected) -> str:
    """The result in a sentence."""
    first = first_of(found)
    where = f"{first.plan.gpus} {first.gpu}"
    if isinstance(found, RequestProjection):
        said = (
            f"{first.network} on {where} answers {first.plan.batch} requests at once with the first token after {_said(found.first.step)} and a token each "
            f"{_said(found.per_token)}: {found.output_tokens_per_second:,.0f} tokens a second"
        )
    elif isinstance(found, ServingProjection):
        said = (
            f"{first.network} on {where} generates {found.output_tokens_per_second:,.0f} tokens a second under full load, with {found.at_once:,} sequences in progress at most and "
            f"a token each {_said(found.per_token)}"
        )
    else:
        said = f"{first.network} on {where}: {STEP[first.plan.phase]} {_said(first.step)}, {first.tokens_per_second:,.0f} tokens a second"
    unit, share = limiters(step_of(found))[0]
    said += f". {unit[0].upper() + unit[1:]} limit{'' if unit.endswith('s') else 's'} {share:.0%} of the time"
    if isinstance(found, RequestProjection):
        said += " that a token takes"
    elif isinstance(found, ServingProjection):
        said += " of the kind of steps that takes most of it"
    return said + (". " if first.footprint.fits else "; it does not fit into the memory. ")


def _facts(
    found: Projected, changed: Projected | None, conditions: Sequence[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Name, what is said, and what is said with values changed where that is another."""
    other = dict(lines_of(changed, conditions)) if changed is not None else {}
    own = dict(lines_of(found, conditions))
    added = [(name, "", text) for name, text in other.items() if name not in own]
    return [(name, text, "" if other.get(name, text) == text else other[name]) for name, text in own.items()] + added


def _prompts(found: Projected) -> str:
    """What the sections below, which are of one step, do not say: how much of the time prompts take, and what limits
    that; "" where the step is all."""
    if isinstance(found, ServingProjection):
        return f"All {found.requests:,} requests take {_said(found.seconds)}; steps that read prompts take {found.prompt_share:.0%} of it, and for {found.host_share:.0%} of it GPUs wait for the host's work between steps. The shares below are of the kind of steps that takes most of the time."
    if not isinstance(found, RequestProjection):
        return ""
    share = found.first.step.seconds / found.seconds.seconds
    units = ", ".join(f"{unit} {of:.0%}" for unit, of in limiters(found.first)[:3])
    return (
        f"The whole batch takes {_said(found.seconds)}: {share:.0%} of it reads the prompts, which is limited by {units}. The shares below are of the time that a generated token takes; "
        "for the prompts project --phase prefill."
    )


def _hidden(step: ModelProjection) -> str:
    """What shares of the operators' time do not say: that communication beside computation is in them and costs
    nothing; "" where there is none."""
    if not step.hidden_seconds:
        return ""
    hidden = step.hidden_seconds / (step.hidden_seconds + step.communication_seconds)
    return f"Shares are of the operators' own time. Of the communication in them {hidden:.0%} runs beside computation and costs nothing: for {step.communication_seconds / step.step.seconds:.1%} of the step GPUs wait for it."


def _of_micro_batch(step: ModelProjection) -> str:
    """What the launches of the table are of, where a step has more of them; "" where it has not."""
    plan = step.plan
    if plan.micro_batches == 1 and plan.pipeline_parallel == 1:
        return ""
    stages = f" through all {plan.pipeline_parallel} stages" if plan.pipeline_parallel > 1 else ""
    once = ", and of what comes once a step (optimizer, gradients over replicas)" if plan.phase == "train" else ""
    return f"Launches and times are of one micro-batch of {plan.micro_batches}{stages}{once}: they do not add up to the step, whose stages work at the same time."


def _left_out(found: Projected) -> str:
    """What the times do not have."""
    plan = first_of(found).plan
    if plan.phase == "train":
        return "Not in the times: the host's work between launches, loading data, checkpoints, failures, GPUs of which one is slower than the others."
    if isinstance(found, ServingProjection) or (isinstance(found, RequestProjection) and plan.framework):
        return f"In the times: what {plan.served_by}'s host does between steps, as far as the GPUs wait for it. Not in them: the network, tokenizing, requests that come one by one."
    return "Not in the times: the host's work between launches (launches are nodes of a CUDA graph), scheduling, other requests."


def _said(interval: Interval) -> str:
    scale, unit = (1e3, "ms") if interval.seconds < 1 else (1.0, "s")
    return f"{scale * interval.seconds:.3g} {unit} ({scale * interval.low_seconds:.3g} to {scale * interval.high_seconds:.3g})"


def _numbers(found: Projected) -> list[tuple[str, str]]:
    """The figures on top."""
    first = first_of(found)
    plan = first.plan
    if isinstance(found, RequestProjection):
        rate, joules = found.output_tokens_per_second, found.joules / (plan.batch * plan.output)
        numbers = [("to the first token", _said(first.step)), ("per output token", _said(found.per_token))]
    elif isinstance(found, ServingProjection):
        rate, joules = found.output_tokens_per_second, found.joules / (found.requests * found.plan.output)
        numbers = [("for all requests", _said(found.seconds)), ("per output token", _said(found.per_token))]
    else:
        rate, joules = found.tokens_per_second, found.joules / found.tokens
        numbers = [(STEP[plan.phase], _said(found.step))]
    held = first.footprint
    energy_validated = step_of(found).energy_validated
    return [
        *numbers, ("tokens a second", f"{rate:,.0f}"), ("tokens a second and GPU", f"{rate / plan.gpus:,.0f}"), ("joules a token" + ("" if energy_validated else ", not validated"), f"{joules:.3g}"),
        ("model FLOP/s utilisation" + (" of the prompts" if isinstance(found, RequestProjection) else " of the steps below" if isinstance(found, ServingProjection) else ""), f"{first.mfu:.1%}"), ("of the fullest GPU's memory", f"{held.total_bytes / max(held.capacity_bytes, 1):.0%}"),
    ]  # fmt: skip


def _rest(rows: Sequence[dict[str, Any]]) -> tuple[int, float, float]:
    return len(rows), sum(row["ms_in_all"] for row in rows), sum(row["share_percent"] for row in rows)
