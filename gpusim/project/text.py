"""A model's projection as a paragraph of lines for a terminal."""

from __future__ import annotations

from gpusim.project.limits import Remedy, limiters
from gpusim.project.part import Interval
from gpusim.project.records import STEP, not_validated, part_shares
from gpusim.project.requests import RequestProjection
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


def lines_of(found: ModelProjection | RequestProjection) -> list[tuple[str, str]]:
    """Names and what is said of them."""
    step = found.first if isinstance(found, RequestProjection) else found
    plan = step.plan
    output = f", {plan.output} tokens generated each" if isinstance(found, RequestProjection) else ""
    keys = {"decode": "in the cache of each", "mixed": "in the cache of each"}.get(plan.phase, "each")
    lines = [
        (
            "model",
            f"{step.network}, {step.parameters / 1e9:.3g} G parameters ({step.active_parameters / 1e9:.3g} G active a token), {plan.dtype}{f', experts in {plan.experts_dtype}' * bool(plan.experts_dtype)}",
        ),
        (
            "load",
            f"{'request' if output else plan.phase} of {plan.batch} sequence{'s' * (plan.batch > 1)}, {plan.sequence} tokens {keys}{output}",
        ),
        ("gpus", _plan(step)),
    ]
    if isinstance(found, RequestProjection):
        lines += [
            ("first token", _time(found.first.step)), ("each token", _time(found.per_token)), ("whole batch", _time(found.seconds)),
            ("throughput", f"{found.output_tokens_per_second:.4g} tokens/s generated, {found.output_tokens_per_second / plan.gpus:.4g} a GPU"),
        ]  # fmt: skip
        shown, joules, tokens, seconds = found.middle, found.joules, plan.batch * plan.output, found.seconds.seconds
    else:
        lines += [
            (STEP[plan.phase], _time(step.step)), ("throughput", f"{step.tokens_per_second:.4g} tokens/s, {step.tokens_per_second / plan.gpus:.4g} a GPU"),
        ]  # fmt: skip
        shown, joules, tokens, seconds = step, step.joules, step.tokens, step.step.seconds
    held = step.footprint
    lines += [
        ("MFU", f"{step.mfu:.1%}" + (" of the prefill" if output else "")),
        ("energy", f"{joules / tokens:.3g} J a token, {joules / seconds / plan.gpus:.3g} W a GPU" + ("" if shown.energy_validated else ", not validated")),
        ("time goes to", _shares(part_shares(shown)) + (" (while generating)" if output else "")),
        ("limited by", _shares(limiters(shown))),
        ("waiting", f"{shown.communication_seconds / shown.step.seconds:.1%} for other GPUs' data, {max(0.0, shown.bubble_seconds) / shown.step.seconds:.1%} in the pipeline"),
        *([("host", f"{shown.host_seconds / shown.step.seconds:.0%} of the time the GPUs wait for kernels to be launched one by one (--launch graphs: as a CUDA graph)")] if shown.host_seconds else []),
        *([("hidden", f"{shown.hidden_seconds / (shown.hidden_seconds + shown.communication_seconds):.0%} of the communication, behind computation")] if shown.hidden_seconds else []),
        ("memory", f"{held.total_bytes / 1e9:.4g} of {held.capacity_bytes / 1e9:.4g} GB on the fullest GPU: weights {held.weight_bytes / 1e9:.4g}, "
                   f"keys and values {held.kv_bytes / 1e9:.4g}, activations {held.activation_bytes / 1e9:.3g}"
                   + (f", gradients and optimizer {held.training_bytes / 1e9:.4g}" if held.training_bytes else "")
                   + f", framework {held.framework_bytes / 1e9:.3g}" + ("" if held.fits else "; DOES NOT FIT")),
    ]  # fmt: skip
    reasons = not_validated(shown)
    if reasons:
        lines.append(
            (
                "unknown",
                "; ".join(f"{share:.0%}: {reason.removeprefix('not validated: ')}" for reason, share in reasons[:3]),
            )
        )
    return lines


def remedy_lines(remedies: list[Remedy]) -> list[tuple[str, str]]:
    """What each part of the GPU made a quarter better would save."""
    return [("would help", "; ".join(f"{each.name} x 1.25: {-each.saved:+.1%}" for each in remedies))]
