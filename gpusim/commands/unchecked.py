"""Say once, on stderr, which results nobody has checked: a case without a check, a trace, which carries no result; and
which launches were run whole although a few blocks were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from gpusim.trace.record import Trace


def tell_unchecked(reasons: Mapping[str, str]) -> None:
    """A line for all of ``reasons`` (what was run -> why nobody knows whether its result is right), none for none."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        if reason:
            by_reason.setdefault(reason, []).append(name)
    if by_reason:
        click.echo(
            "not checked: " + "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items()), err=True
        )


def tell_whole(traces: Iterable[Trace]) -> None:
    """A line for each kernel of which all blocks were run although a few were asked for, with the reason."""
    reasons = {trace.launch.kernel: trace.why_whole for trace in traces if trace.why_whole}
    for kernel, why in reasons.items():
        click.echo(f"{kernel}: all blocks were run ({why})", err=True)
