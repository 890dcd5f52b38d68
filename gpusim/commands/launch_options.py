"""``--grid``, ``--block``, ``--shared-bytes``, ``--cluster``, ``--arg``: the launch of a kernel named FILE:KERNEL;
``--option``, ``--include``, ``--link`` ...: how it is compiled.

Mental model: the options write the request's axes (``my.cu:saxpy:grid=4,block=256,arg0=int:1024``), so that a launch is
kept, swept over and run again as any shape is.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from gpusim.cases.native_names import ALL_KERNELS, is_native_file, split_native
from gpusim.errors import UsageError

_LAUNCH = (
    click.option(
        "--grid", metavar="X[xY[xZ]]", help="Blocks of the launch of FILE:KERNEL; a formula of its axes: cdiv(n,block)."
    ),
    click.option("--block", metavar="X[xY[xZ]]", help="Threads of a block of it."),
    click.option("--shared-bytes", metavar="N", help="Dynamic shared memory of a block of it."),
    click.option("--cluster", metavar="X[xY[xZ]]", help="Blocks of a thread-block cluster of it."),
    click.option(
        "--arg",
        "arguments",
        multiple=True,
        metavar="VALUE",
        help="An argument of it, in order: a number with its type (float:2, int:1024), an array (float[1024], zeros;"
        " float[32,32]=1; int[64]=arange; float[1024]=random:7, numbers from 0 to 1 or indices into the array), an array of"
        " pointers (float*[8,1024]), a file that NumPy wrote (x.npy), a structure by value ({int:3,float:2}), or null.",
    ),
    click.option("--cooperative", is_flag=True, help="Launch it with all its blocks resident (this_grid().sync())."),
)
_COMPILED = (
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="OPTION",
        help="Compiler option for FILE.cu:KERNEL: --option=-DN=4.",
    ),
    click.option("--include", multiple=True, metavar="FOLDER", help="Search this folder for its includes."),
    click.option("--std", metavar="NAME", help="Language of it: c++17, c++20."),
    click.option(
        "--link", multiple=True, metavar="FILE", help="Source, PTX or machine code with device functions that it calls."
    ),
    click.option(
        "--compiler",
        type=click.Choice(["auto", "nvrtc", "nvcc"]),
        help="auto: NVRTC, and nvcc where a file with host code needs it.",
    ),
)
_OF_ONE = ("grid", "block", "shared_bytes", "cluster")


def launch_options(*parameters: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of a launch and of its compilation on a command; what they say is written into its ``parameters``,
    each a request or a tuple of them."""
    return _options((*_LAUNCH, *_COMPILED), parameters)


def compile_options(*parameters: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Those of the compilation alone."""
    return _options(_COMPILED, parameters)


def _options(
    declared: tuple[Callable[..., Any], ...], parameters: tuple[str, ...]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(**options: Any) -> Any:
            said = _said(options)
            for parameter in parameters:
                asked = options[parameter]
                texts = (asked,) if isinstance(asked, str) else asked
                if declared is not _COMPILED:
                    for text in texts:
                        if is_native_file(text):
                            raise UsageError(f"{text} is a file of kernels: name one of them, {text}:KERNEL")
                made = _written(texts, said, len(parameters) > 1) if said else texts
                options[parameter] = made[0] if isinstance(asked, str) else made
            return command(**options)

        for option in reversed(declared):
            run = option(run)
        return run

    return decorate


def _said(options: dict[str, Any]) -> dict[str, str]:
    """The axes that the options say; they are taken out of ``options``."""
    axes: dict[str, str | None] = {axis: options.pop(axis, None) for axis in _OF_ONE}
    axes |= {f"arg{place}": text for place, text in enumerate(options.pop("arguments", ()))}
    axes["cooperative"] = "true" if options.pop("cooperative", False) else None
    standard = options.pop("std", None)
    words = {
        "options": (*options.pop("options"), *([f"-std={standard}"] if standard else [])),
        "include": options.pop("include"),
        "link": options.pop("link"),
    }
    axes |= {axis: _quoted(given) for axis, given in words.items() if given}
    axes["compiler"] = options.pop("compiler", None)
    return {axis: text for axis, text in axes.items() if text is not None}


def _quoted(words: tuple[str, ...]) -> str:
    text = shlex.join(words)
    return f"({text})" if "," in text else text


def _written(texts: tuple[str, ...], said: Mapping[str, str], some: bool) -> tuple[str, ...]:
    """The requests with what was said; ``some``: those that are no kernels of a file stay as they are."""
    first = next(iter(said))
    texts = tuple(f"{text}:{ALL_KERNELS}" if is_native_file(text) else text for text in texts)
    named = [text for text in texts if split_native(text) is not None]
    if len(texts) > 1 and (first in _OF_ONE or first.startswith("arg")):
        raise UsageError(f"--{first.replace('_', '-')} says a launch of one kernel, and {len(texts)} are named")
    if not named and not some:
        raise UsageError(
            f"--{first.replace('_', '-')} says the launch of a kernel FILE:KERNEL, and {texts[0] if texts else 'none'} is none: a function in"
            " Python says its own (gpusim.cuda_cpp(FILE, KERNEL, options, headers=, link=, cooperative=True))"
        )
    return tuple(_with_axes(text, said) if text in named else text for text in texts)


def _with_axes(text: str, said: Mapping[str, str]) -> str:
    found = split_native(text)
    assert found is not None
    path, entry, shape = found
    axes = ",".join(f"{axis}={value}" for axis, value in said.items())
    return f"{path}:{entry}:{shape}{',' if shape else ''}{axes}"
