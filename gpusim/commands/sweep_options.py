"""Options of a sweep: several GPUs, and a file to draw it into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PLOTS = (".svg", ".png", ".pdf")


class PlotFile(click.Path):
    """A file whose ending says in which format a plot is to be drawn."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(value)
        if path.suffix not in PLOTS:
            self.fail(f"{value}: a plot ends in {', '.join(PLOTS)}", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {path.parent} to write {path.name} into", param, ctx)
        return super().convert(value, param, ctx)


def gpus_option(default: str = "h200") -> Callable:
    """``--gpu NAME``, once or several times, or several names with commas between."""

    def split(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.strip() for value in values for name in value.split(",") if name.strip()) or (default,)

    return click.option(
        "--gpu",
        "gpus",
        multiple=True,
        callback=split,
        metavar="NAME",
        help="A GPU of `gpusim gpus list`, or the path of a TOML file that inherits one; several make a sweep."
        f"  [default: {default}]",
    )
