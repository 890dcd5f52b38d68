"""``--grid``, ``--block``, ``--shared-bytes``, ``--arg``: the launch of a kernel named FILE:KERNEL.

Mental model: the options write the request's axes (``my.cu:saxpy:grid=4,block=256,arg0=int:1024``), so that a launch is kept, swept
over and run again as any shape is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from gpusim.cases.native_names import is_native_file, split_native
from gpusim.errors import UsageError

_OPTIONS = (
    click.option("--grid", metavar="X[xY[xZ]]", help="Blocks of the launch of FILE:KERNEL."),
    click.option("--block", metavar="X[xY[xZ]]", help="Threads of a block of it."),
    click.option("--shared-bytes", metavar="N", help="Dynamic shared memory of a block of it."),
    click.option(
        "--arg",
        "arguments",
        multiple=True,
        metavar="VALUE",
        help="An argument of it, in order: a number with its type (float:2, int:1024), an array (float[1024], zeros;"
        " float[32,32]=1; int[64]=arange; float[1024]=random:7, numbers from 0 to 1 or indices into the array), or null.",
    ),
)


def launch_options(parameter: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The four options on a command; what they say is written into its ``parameter``, a request or a tuple of them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(
            grid: str | None, block: str | None, shared_bytes: str | None, arguments: tuple[str, ...], **options: Any
        ) -> Any:
            given = {"grid": grid, "block": block, "shared_bytes": shared_bytes}
            given |= {f"arg{place}": text for place, text in enumerate(arguments)}
            said = {axis: text for axis, text in given.items() if text is not None}
            asked = options[parameter]
            for text in (asked,) if isinstance(asked, str) else asked:
                if is_native_file(text):
                    raise UsageError(f"{text} is a file of kernels: name one of them, {text}:KERNEL")
            if said and isinstance(asked, str):
                options[parameter] = _with_axes(asked, said)
            elif said:
                if len(asked) != 1:
                    raise UsageError(f"--{next(iter(said))} says a launch of one kernel, and {len(asked)} are named")
                options[parameter] = (_with_axes(asked[0], said),)
            return command(**options)

        for option in reversed(_OPTIONS):
            run = option(run)
        return run

    return decorate


def _with_axes(text: str, said: dict[str, str]) -> str:
    found = split_native(text)
    if found is None:
        raise UsageError(
            f"--grid, --block, --shared-bytes and --arg say the launch of a kernel FILE:KERNEL, and {text} is none"
        )
    path, entry, shape = found
    axes = ",".join(f"{axis}={value}" for axis, value in said.items())
    return f"{path}:{entry}:{shape}{',' if shape else ''}{axes}"
