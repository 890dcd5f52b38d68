"""``gpusim report``: a saved run as a page to look at; the work."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from gpusim.commands.report import target_of
from gpusim.io.progress import task
from gpusim.io.whole_file import write_whole
from gpusim.report.saved import load_result
from gpusim.report.tables import format_records


def report(result: Path, page: Path | None, form: str) -> None:
    """What :func:`gpusim.commands.report.report` declares, with its arguments."""
    target = target_of(result, page)
    # Its packages are an extra: asked for when a page is to be drawn, not for --help.
    render = importlib.import_module("gpusim.report.html").render_page
    with task(f"drawing {target.name}"):
        text = render(load_result(result)).encode()
    write_whole(target, text)
    click.echo(format_records([{"file": str(target), "bytes": len(text)}], form))
