"""A model's projection as a paragraph of lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.io.percent import signed
from gpusim.project.limits import Remedy, limiters
from gpusim.project.part import Interval
from gpusim.project.records import STEP, not_validated, part_shares
from gpusim.project.requests import RequestProjection
from gpusim.project.serving import ServingProjection
from gpusim.project.settings import schedule_of
from gpusim.project.shown import Projected, first_of, step_of
from gpusim.project.whole import ModelProjection


def _time(interval: Interval) -> str:
    unit, scale = ("ms", 1e3) if interval.seconds < 10 else ("s", 1.0)
    low, high = scale * interval.low_seconds, scale * interval.high_seconds
    known = "" if interval.validated else ", not validated in every part"
    return f"{scale * interval.seconds:.4g} {unit} ({low:.4g} to {high:.4g}{known})"


def _plan(found: ModelProjection) -> str:
    plan = found.plan
    ways = (
        ("tensor", plan.tensor_parallel),
        ("pipeline", plan.pipeline_parallel),
        ("data", plan.data_parallel),
        ("expert", plan.expert_parallel),
    )
    split = ", ".join(f"{name} parallel {count}" for name, count in ways if count > 1)
    return f"{plan.gpus} x {found.gpu}" + (f": {split}" if split else "")


def _shares(pairs: list[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in pairs if share >= 0.005)


def _serving(found: ServingProjection) -> list[tuple[str, str]]:
    """What a server's projection says in place of a step's."""
    server, plan = found.server, found.plan
    limits = (
        "memory holds no more"
        if server.sequences == server.memory_sequences
        else f"memory would hold {server.memory_sequences:,}"
    )
    engines = plan.data_parallel * plan.pipeline_parallel
    each = f" in each of {engines} engines" if engines > 1 else ""
    rate, held = found.output_tokens_per_second, f"{server.sequences:,} sequences at once at most{each} ({limits})"
    if found.at_once == found.requests < server.sequences * engines:
        held = (
            f"{found.requests:,} sequences at once at most, all requests (there is room for {server.sequences:,}{each})"
        )
    return [
        ("in progress", f"{held}, {found.batch:.4g} on average; a step reads up to {server.tokens:,} tokens"),
        ("all requests", _time(found.seconds)), ("each token", _time(found.per_token)),
        ("throughput", f"{_rate(rate)} tokens/s generated, {_rate(rate / plan.gpus)} a GPU, {rate / plan.output:.3g} requests/s"),
        ("prompts", f"{found.prompt_share:.0%} of the time goes to steps that read some"),
        ("scheduler", f"{found.host_share:.0%} of the time GPUs wait for what {plan.served_by}'s host does between steps"),
    ]  # fmt: skip


def _rate(tokens_per_s: float) -> str:
    """Four digits, never with an exponent."""
    return f"{float(f'{tokens_per_s:.4g}'):.0f}" if tokens_per_s >= 1000 else f"{tokens_per_s:.4g}"


def _load(found: Projected) -> str:
    plan = first_of(found).plan
    if isinstance(found, ServingProjection):
        return f"{found.requests:,} requests that wait at once, {found.plan.sequence} tokens each, {found.plan.output} tokens generated each, {plan.served_by}'s scheduler"
    output = f", {plan.output} tokens generated each" if isinstance(found, RequestProjection) else ""
    keys = {"decode": "in the cache of each", "mixed": "in the cache of each"}.get(plan.phase, "each")
    return f"{'request' if output else plan.phase} of {plan.batch} sequence{'s' * (plan.batch > 1)}, {plan.sequence} tokens {keys}{output}"


def lines_of(found: Projected, conditions: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
    """Names and what is said of them; ``conditions``: of the run, which the plan does not have
    (:func:`gpusim.project.settings.power_of`)."""
    step = first_of(found)
    plan = step.plan
    lines = [
        (
            "model",
            f"{step.network}, {step.parameters / 1e9:.3g} G parameters ({step.active_parameters / 1e9:.3g} G active a token), {plan.dtype}{f', experts in {plan.experts_dtype}' * bool(plan.experts_dtype)}{f', queries, keys and values by weights in {plan.attention_dtype}' * bool(plan.attention_dtype)}",
        ),
        ("load", _load(found)),
        ("gpus", _plan(step)),
        ("run with", schedule_of(plan)),
        *conditions,
    ]
    if isinstance(found, RequestProjection):
        lines += [
            ("first token", _time(found.first.step)), ("each token", _time(found.per_token)), ("whole batch", _time(found.seconds)),
            ("throughput", f"{_rate(found.output_tokens_per_second)} tokens/s generated, {_rate(found.output_tokens_per_second / plan.gpus)} a GPU"),
        ]  # fmt: skip
        joules, tokens, seconds = found.joules, plan.batch * plan.output, found.seconds.seconds
    elif isinstance(found, ServingProjection):
        lines += _serving(found)
        joules, tokens, seconds = found.joules, found.requests * found.plan.output, found.seconds.seconds
    else:
        lines += [
            (STEP[plan.phase], _time(step.step)), ("throughput", f"{_rate(step.tokens_per_second)} tokens/s, {_rate(step.tokens_per_second / plan.gpus)} a GPU"),
        ]  # fmt: skip
        joules, tokens, seconds = step.joules, step.tokens, step.step.seconds
    held, shown = step.footprint, step_of(found)
    where = {
        RequestProjection: " (while generating)",
        ServingProjection: " (in the kind of steps that takes most of the time)",
    }.get(type(found), "")
    lines += [
        ("MFU", f"{step.mfu:.1%}" + (" of the prefill" if isinstance(found, RequestProjection) else where)),
        ("energy", f"{joules / tokens:.3g} J a token, {joules / seconds / plan.gpus:.3g} W a GPU" + ("" if shown.energy_validated else ", not validated")),
        ("time goes to", _shares(part_shares(shown)) + where),
        ("limited by", _shares(limiters(shown))),
        ("waiting", f"{shown.communication_seconds / shown.step.seconds:.1%} for other GPUs' data, {max(0.0, shown.bubble_seconds) / shown.step.seconds:.1%} in the pipeline"),
        *([("host", f"{shown.host_seconds / shown.step.seconds:.0%} of the time the GPUs wait {'for kernels to be launched one by one (--launch graphs: as a CUDA graph)' if shown.launch_seconds else 'between the pieces of CUDA graphs (--engine)'}")] if shown.host_seconds else []),
        *([("hidden", f"{shown.hidden_seconds / (shown.hidden_seconds + shown.communication_seconds):.0%} of the communication, behind computation")] if shown.hidden_seconds else []),
        ("memory", f"{held.total_bytes / 1e9:.4g} of {held.capacity_bytes / 1e9:.4g} GB on the fullest GPU: weights {held.weight_bytes / 1e9:.4g}, "
                   f"keys and values {held.kv_bytes / 1e9:.4g}, activations {held.activation_bytes / 1e9:.3g}"
                   + (f", gradients and optimizer {held.training_bytes / 1e9:.4g}" if held.training_bytes else "")
                   + f", framework {held.framework_bytes / 1e9:.3g}" + ("" if held.fits else "; DOES NOT FIT")),
    ]  # fmt: skip
    # Of less than a hundredth of the time "0 %: a guess" would say more than it means.
    reasons = [(reason, share) for reason, share in not_validated(shown) if share >= 0.005]
    if reasons:
        lines.append(
            (
                "unknown",
                "; ".join(
                    f"{share:.0%} of the time: {reason.removeprefix('not validated: ')}"
                    for reason, share in reasons[:3]
                ),
            )
        )
    return lines


def remedy_lines(remedies: list[Remedy]) -> list[tuple[str, str]]:
    """What each part of the GPU made a quarter better would save."""
    return [("would help", "; ".join(f"{each.name} x 1.25: {signed(-each.saved, '.1%')}" for each in remedies))]
