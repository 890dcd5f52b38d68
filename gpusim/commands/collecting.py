"""``gpusim collect``; the work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from gpusim.collect.ask import asked_to_capture
from gpusim.collect.daemon import Settings
from gpusim.collect.daemon import serve as serve_until_stopped
from gpusim.collect.ledger import NAME, Ledger
from gpusim.collect.totals import Total, summed
from gpusim.errors import UsageError
from gpusim.record.sketch import quantile_ns
from gpusim.report.tables import format_records

LEAST_TOKEN_BYTES = 16


def serve(
    data: Path, socket: Path, all_users: bool, listen: str | None, forward: str | None, token: Path | None, period: float,
    coarse: bool, metrics: str | None, otlp: str | None,
) -> None:  # fmt: skip
    """What :func:`gpusim.commands.collect.serve` declares, with its arguments."""
    secret = token.read_bytes().strip() if token is not None else None
    if secret is not None and len(secret) < LEAST_TOKEN_BYTES:
        raise UsageError(f"{token} holds {len(secret)} bytes: a token has {LEAST_TOKEN_BYTES} at least")
    for option, place in (("--listen", listen), ("--forward", forward), ("--metrics", metrics)):
        if place and (":" in place or option == "--metrics") and not place.rpartition(":")[2].isdigit():
            raise UsageError(f"{option} {place}: HOST:PORT is wanted")
    if coarse and not forward:
        raise UsageError("--coarse says what is forwarded: give --forward too")
    settings = Settings(
        data, socket, listen, forward, secret, all_users, period, metrics=metrics, otlp=otlp, coarse=coarse
    )
    asyncio.run(serve_until_stopped(settings, lambda line: click.echo(line, err=True)))


def show(data: Path, most: int, form: str) -> None:
    """What :func:`gpusim.commands.collect.show` declares, with its arguments."""
    if not (data / NAME).is_file():
        raise UsageError(f"{data} is no collector's folder: it has no {NAME}")
    ledger = Ledger(data)
    rows = listed(ledger.totals())
    ledger.close()
    click.echo(format_records(rows[:most], form))


def capture(socket: Path, seconds: int) -> None:
    """What :func:`gpusim.commands.collect.capture` declares, with its arguments."""
    click.echo(f"{asked_to_capture(socket, seconds)} processes send each launch for {seconds} s")


def listed(totals: Iterable[Total]) -> list[dict[str, Any]]:
    """Rows over all minutes, those that took most time first. A launch that stands for several counts as so many, as in
    production's reports."""
    whole = summed(
        msgspec.structs.replace(t, what=msgspec.structs.replace(t.what, minute=0, minutes=0)) for t in totals
    )
    order = sorted(whole.values(), key=lambda t: (-t.weighted_ns, -t.weighted_launches, t.what.kernel))
    return [_row(total) for total in order]


def _row(total: Total) -> dict[str, Any]:
    what = total.what
    half, most = quantile_ns(total.bins, 0.5), quantile_ns(total.bins, 0.99)
    return {
        "kernel": what.kernel or ("graph" if what.kind == "graph" else "unknown"),
        "kind": what.kind,
        "grid": "x".join(map(str, what.grid)),
        "block": "x".join(map(str, what.block)),
        "registers": what.registers,
        "shared_bytes": what.static_shared_bytes + what.dynamic_shared_bytes,
        "nvtx": what.nvtx,
        "gpu": what.gpu,
        "rank": "" if what.rank < 0 else what.rank,
        "launches": total.launches,
        "weighted_launches": round(total.weighted_launches, 3),
        "timed": total.timed,
        "time_us": round(total.weighted_ns / 1000, 3),
        "median_us": "" if half is None else round(half / 1000, 3),
        "p99_us": "" if most is None else round(most / 1000, 3),
    }
