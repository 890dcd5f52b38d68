"""Say once, on stderr, which results nobody has checked: a case without a check, a trace, which carries no result."""

from __future__ import annotations

from collections.abc import Mapping

import click


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
