"""``-o FILE``: the data that a command prints, written to a file instead, in the form that its ending says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from gpusim.commands.output_place import refuse_no_place
from gpusim.errors import UsageError
from gpusim.io.whole_file import write_whole

#: Ending -> ``--format``.
ENDINGS = {".json": "json", ".csv": "csv", ".md": "md", ".txt": "table"}


def output_option() -> Callable:
    """``-o FILE``."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Write the data to this file instead of stdout ({', '.join(ENDINGS)}).",
    )


def form_of(output: Path | None, form: str | None) -> str:
    """The form that was asked for by ``--format``, else by the file's ending. Raises UsageError for an ending that says
    nothing and for a folder that is not there, before any work."""
    if output is None:
        return form or "table"
    refuse_no_place(output)
    if form is None and output.suffix not in ENDINGS:
        raise UsageError(f"{output}: what form is wanted? End it in {', '.join(ENDINGS)}, or give --format")
    return form or ENDINGS[output.suffix]


def page_or_data(output: Path | None, form: str | None) -> tuple[Path | None, Path | None, str]:
    """For a command whose ``-o FILE`` is a page: where the page goes, where the data go in place of stdout (a file
    whose ending names a form of theirs), and their form. Raises UsageError for a folder that is not there, before any
    work."""
    refuse_no_place(output)
    if output is not None and output.suffix in ENDINGS:
        return None, output, form_of(output, form)
    return output, None, form or "table"


@contextlib.contextmanager
def open_output(output: Path | None) -> Iterator[Callable[[str], None]]:
    """What takes a command's text, piece by piece: stdout, or ``output``, which is written whole at the end or not at
    all."""
    if output is None:
        yield click.echo
        return
    texts: list[str] = []
    yield texts.append
    write_whole(output, ("\n".join(texts) + "\n").encode())
    click.echo(f"written to {output}", err=True)
