"""``gpusim report``: a saved run as a page to look at."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from gpusim.commands.options import HELP, format_option
from gpusim.errors import UsageError
from gpusim.io.progress import task
from gpusim.io.whole_file import write_whole
from gpusim.report.saved import load_result
from gpusim.report.tables import format_records


@click.command(context_settings=HELP)
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Page to write; by default RESULT with the ending .html.",
)
@format_option()
def report(result: Path, page: Path | None, form: str) -> None:
    """Write one self-contained HTML page about RESULT, a file of `gpusim simulate --save`.

    The page holds the stall bars, every unit's utilisation, the roofline, bandwidth and warp states over
    time, and the hot source lines and instructions. It needs no network. It needs the extra
    gpusim[report] (matplotlib, jinja2).

    \b
    Examples:
      gpusim simulate transpose --why --save transpose.json
      gpusim report transpose.json --html transpose.html
    """
    target = page if page is not None else result.with_suffix(".html")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent} to write {target.name} into")
    if target.resolve() == result.resolve():
        raise UsageError(f"{target} is the result itself; give another --html")
    # Its packages are an extra: asked for when a page is to be drawn, not for --help.
    render = importlib.import_module("gpusim.report.html").render_page
    with task(f"drawing {target.name}"):
        text = render(load_result(result)).encode()
    write_whole(target, text)
    click.echo(format_records([{"file": str(target), "bytes": len(text)}], form))
