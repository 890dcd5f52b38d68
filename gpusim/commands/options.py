"""Options that several commands share, so that they read and behave alike everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from gpusim.cases.numbers import parse_integer
from gpusim.launch.instruction_limit import DEFAULT_INSTRUCTION_LIMIT
from gpusim.report.tables import FORMATS

HELP = {"help_option_names": ["-h", "--help"]}


class Count(click.IntRange):
    """A whole number within a range, written as sizes are everywhere: ``4096``, ``4Ki``, ``1e6``, ``2**20``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            try:
                value = parse_integer(value)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


class Name(click.Choice):
    """One of several names, in large or small letters."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(choices, case_sensitive=False)


class Figure(click.FloatRange):
    """A number within a range: NaN, which no comparison refuses, and infinity are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class OnceOption(click.Option):
    """An option whose second value would silently replace the first one: it is refused, with ``instead``, how several
    are asked for."""

    def __init__(self, *declarations: Any, instead: str = "", **settings: Any) -> None:
        super().__init__(*declarations, **settings)
        self.instead = instead

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        parser.add_option(obj=self, opts=self.opts, dest=self.name, action="append", nargs=1)

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:
        given = opts.get(self.name)
        if isinstance(given, list):
            if len(given) > 1:
                values = ", ".join(map(str, given))
                raise click.UsageError(
                    f"{self.opts[0]} is given {len(given)} times ({values}) and takes one value here{self.instead}", ctx
                )
            opts = {**opts, self.name: given[0]}
        return super().consume_value(ctx, opts)


def gpu_option(default: str = "h200", instead: str = "") -> Callable:
    """``--gpu NAME``: a built-in GPU or a TOML file; ``instead``: what the message says to who gives several."""
    return click.option(
        "--gpu",
        cls=OnceOption,
        instead=instead,
        default=default,
        show_default=True,
        metavar="NAME",
        help="A GPU of `gpusim gpus list`, or the path of a TOML file that inherits one.",
    )


def instruction_limit_option() -> Callable:
    """``--instruction-limit N``: when a launch that is emulated counts as one that never ends."""
    return click.option(
        "--instruction-limit",
        type=click.IntRange(1),
        default=DEFAULT_INSTRUCTION_LIMIT,
        show_default=True,
        metavar="N",
        help="Warp instructions after which a launch fails as one that never ends.",
    )


def format_option(default: str | None = "table") -> Callable:
    """``--format``: how records are written to stdout; without a ``default`` the ending of an output file may say
    so."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default=default,
        show_default=True if default else "table, or by the ending of -o",
        help="How the data on stdout is written.",
    )


#: ``--power-limit-watts``, of projections.
power_limit_option = click.option(
    "--power-limit-watts",
    type=click.FloatRange(1.0, 100_000.0),
    help="Of the board, if not its own; long operators slow down to stay within.",
)


def set_option() -> Callable:
    """``--set KEY=VALUE``: values of the GPU that are to differ from its file's."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change a value of the GPU, by its key in `gpusim gpus show`: KEY=60, or KEY=*1.5 of what it has; may be repeated.",
    )
