"""``gpusim report``: a saved run as a page to look at; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.errors import UsageError
from gpusim.io.real_path import real_path


@click.command(context_settings=HELP)
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Page to write; by default RESULT with the ending .html.",
)
@format_option()
@done_by("reporting")
def report(result: Path, page: Path | None, form: str) -> None:
    """Write one self-contained HTML page about RESULT, a file of `gpusim simulate --save`.

    The page holds the stall bars, every unit's utilisation, the roofline, bandwidth and warp states over
    time, and the hot source lines and instructions. It needs no network. It needs the extra
    gpusim[report] (matplotlib, jinja2).

    \b
    Examples:
      gpusim simulate transpose --why --save transpose.json
      gpusim report transpose.json -o transpose.html
    """
    target = target_of(result, page)
    refuse_no_place(target)
    if real_path(target) == real_path(result):
        raise UsageError(f"{target} is the result itself; give another -o")


def target_of(result: Path, page: Path | None) -> Path:
    """The page that is to be written of ``result``: ``page`` where one is named."""
    return page if page is not None else result.with_suffix(".html")
