"""A launch of a kernel of CUDA C++, PTX or machine code that a command line describes: grid, block, shared memory,
arguments.

Mental model: the launch is the shape: ``grid`` and ``block`` (``4`` or ``4x2x1``), ``shared_bytes``, ``arg0``, ``arg1``
... (:mod:`gpusim.cases.native_arguments`), how the file is compiled (``options``, ``include``, ``link``, ``compiler``,
``cooperative``), and axes of the user's own, which the others may be formulas of:
``n=1Ki,grid=cdiv(n,block),arg0=int:n,arg2=float[n]``; in braces such an axis stands as it is written, in the kernel's
name too: ``my.cu:scale<{T}>:T=float,double``. What is wrong with such a shape is told here, where nothing is compiled
or made yet.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpusim.cases.native_arguments import check_kernel_argument
from gpusim.cases.native_hints import launch_hint
from gpusim.cases.native_names import CUDA_CPP, PTX, split_native
from gpusim.cases.numbers import parse_integer
from gpusim.cases.requests import split_request
from gpusim.errors import UnknownKernelError, UsageError
from gpusim.frontend.native import kernels
from gpusim.io.real_path import refuse_no_text

#: Axes that say how the file is compiled, and are left out of a shape that does not give them.
COMPILED = ("options", "include", "link", "compiler", "cooperative")
#: Those of every launch.
RESERVED = ("grid", "block", "shared_bytes", "cluster", *COMPILED)
ARGUMENT_AXIS = re.compile(r"^arg\d{1,3}$")
_BRACED = re.compile(r"\{([A-Za-z_]\w*)\}")
#: The x between two sides, behind a number or bracket, outside of brackets.
_BETWEEN_SIDES = re.compile(r"(?<=[\w)])x(?=[\w(])(?![^(]*\))")
_RANGE = re.compile(r"^(.+)\.\.(.+)$")


def load_native(name: str, shape: Mapping[str, Any] | None = None) -> Any:
    """The kernel that ``path:kernel`` names, for a front end to compile as the axes of ``shape`` and of the name itself
    say. Raises UnknownKernelError for a file that is not there."""
    found = split_native(name)
    if found is None:
        raise UnknownKernelError(f"{name!r} does not name a kernel of a file: write FILE:KERNEL")
    path, entry, _ = found
    if not os.path.isfile(path):  # False also for a name that no file can have
        raise UnknownKernelError(f"there is no file {path}")
    refuse_no_text(Path(path))
    axes = _own_axes(name) | {axis: str(value) for axis, value in (shape or {}).items()}
    entry = substituted(entry, axes)
    options = shlex.split(_listed(axes.get("options", ""), axes))
    include = shlex.split(_listed(axes.get("include", ""), axes))
    link = [Path(each) for each in shlex.split(_listed(axes.get("link", ""), axes))]
    cooperative = axes.get("cooperative", "false") == "true"
    suffix = Path(path).suffix
    if suffix in CUDA_CPP:
        return kernels.cuda_cpp(
            Path(path), entry, options, include, link=link, cooperative=cooperative, compiler=axes.get("compiler", "auto")
        )  # fmt: skip
    wrong = next(
        (axis for axis in COMPILED[:4] if axes.get(axis) and (suffix != PTX or axis in ("include", "compiler"))), None
    )
    if wrong is not None:
        raise UsageError(
            f"{path} is not compiled: {wrong} is for CUDA C++" + " and PTX" * (wrong in ("options", "link"))
        )
    if suffix == PTX:
        return kernels.ptx(Path(path), entry, options, link=link, cooperative=cooperative)
    return kernels.cubin(Path(path), entry, cooperative=cooperative)


def complete_native_shape(name: str, shape: Mapping[str, Any]) -> dict[str, Any]:
    """``shape``, a launch of ``name`` as texts, in order and with what may be left out: axes of the user's own, the
    launch's, and how it is compiled, if said. Raises UsageError for what is missing, unknown or cannot be read."""
    given = _own_axes(name) | {axis: str(value) for axis, value in shape.items()}
    kernel = load_native(name, shape)
    missing = [axis for axis in ("grid", "block") if axis not in given]
    if missing:
        options = " ".join(f"--{axis} {example}" for axis, example in (("grid", 4), ("block", 256)) if axis in missing)
        told, examples = "", []
        if isinstance(kernel, kernels.CudaCppKernel):
            told, examples = launch_hint(kernel.source, kernel.file, kernel.entry)
        raise UsageError(f"{name} needs its launch: give {options}, and {_arguments_told(name, told, examples)}")
    arguments = sorted((axis for axis in given if ARGUMENT_AXIS.match(axis)), key=lambda axis: int(axis[3:]))
    own = [axis for axis in given if axis not in (*RESERVED, *arguments)]
    used = " ".join([name, *(given[axis] for axis in given if axis not in own)])
    idle = [axis for axis in own if not re.search(rf"\b{re.escape(axis)}\b", used.partition(":")[2])]
    if idle:
        raise UsageError(
            f"{name} has no axis {idle[0]!r}; a launch has grid, block, shared_bytes, arg0, arg1 ..., and axes that stand in those"
        )
    for place, axis in enumerate(arguments):
        if axis != f"arg{place}":
            raise UsageError(f"{name}: {axis} is given, but not arg{place}")
    whole = {axis: _plain(given[axis]) for axis in own}
    whole |= {"grid": given["grid"], "block": given["block"], "shared_bytes": given.get("shared_bytes", "0")}
    whole |= {axis: given[axis] for axis in (*arguments, *(axis for axis in ("cluster", *COMPILED) if axis in given))}
    cluster_of(name, whole, launch_of(name, whole)[3])
    for axis in arguments:
        read_axis(name, axis, whole[axis], lambda text: check_kernel_argument(substituted(text, whole)))
    if whole.get("cooperative", "true") not in ("true", "false"):
        raise UsageError(f"{name}: cooperative={whole['cooperative']}: it is true or false")
    return whole


def _arguments_told(name: str, told: str, examples: list[str]) -> str:
    """How the arguments are given, shown on those of the kernel's own declaration where it was found."""
    if not examples:
        return "--arg TYPE:VALUE or TYPE[LENGTH] for each argument" + f"; {told}" * bool(told)
    options = " ".join(f"--arg {shlex.quote(each) if ' ' in each else each}" for each in examples)
    axes = ",".join(f"arg{place}={each}" for place, each in enumerate(examples))
    return f"for {told} {options}; where no options are taken, '{name.partition(':')[0]}:{name.partition(':')[2].partition(':')[0]}:grid=4,block=256,{axes}'"


def substituted(text: str, axes: Mapping[str, Any]) -> str:
    """``text`` with each ``{axis}`` replaced by what the axis is."""
    return _BRACED.sub(lambda found: str(axes.get(found[1], found[0])), text)


def launch_of(name: str, shape: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...], int, dict[str, int]]:
    """Grid, block, shared bytes, and the numbers that formulas may name."""
    names: dict[str, int] = {}
    for axis, value in shape.items():
        if axis not in RESERVED and not ARGUMENT_AXIS.match(axis) and re.fullmatch(r"-?\d+", str(value)):
            names[axis] = int(value)
    block = read_axis(name, "block", shape["block"], lambda text: _extents(substituted(text, shape), names))
    names.setdefault("block", math.prod(block))
    grid = read_axis(name, "grid", shape["grid"], lambda text: _extents(substituted(text, shape), names))
    names.setdefault("grid", math.prod(grid))
    shared = read_axis(
        name, "shared_bytes", shape["shared_bytes"], lambda text: parse_integer(substituted(text, shape), names)
    )
    return grid, block, shared, names


def cluster_of(name: str, shape: Mapping[str, Any], names: Mapping[str, int]) -> tuple[int, ...] | None:
    """Blocks of a cluster, None where the shape does not say; ``names`` as :func:`launch_of` gives them."""
    if "cluster" not in shape:
        return None
    return read_axis(name, "cluster", shape["cluster"], lambda text: _extents(substituted(text, shape), dict(names)))


def _own_axes(name: str) -> dict[str, str]:
    """The axes that stand in a kernel's name, the first value of each (of a range the least)."""
    found = split_native(name)
    if found is None or not found[2]:
        return {}
    return {axis: _RANGE.sub(r"\1", values[0]) for axis, values in split_request(name)[1].items()}


def _plain(text: str) -> str:
    """A whole number in digits, so that 1Ki and 1024 are one shape; else the text."""
    if _RANGE.match(text):
        raise UsageError(f"{text}: a range is for gpusim explore; several values are written 1024,2048")
    try:
        return str(parse_integer(text))
    except ValueError:
        return text


def _listed(text: str, axes: Mapping[str, Any]) -> str:
    """An axis that holds several words, in brackets where a comma is among them."""
    text = substituted(text, axes)
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _extents(text: str, names: Mapping[str, int]) -> tuple[int, ...]:
    try:
        parts = (parse_integer(text, names),) if text.strip() in names else None
        parts = parts or tuple(parse_integer(part, names) for part in _BETWEEN_SIDES.split(text))
    except ValueError as error:
        known = f"; formulas may name {', '.join(names)}" if names and re.search(r"[A-Za-z_]", text) else ""
        raise ValueError(f"{error}{known}") from None
    if not 1 <= len(parts) <= 3 or min(parts) < 1:
        raise ValueError("write one to three numbers from 1 on, as in 4x2x1")
    return parts


def read_axis(name: str, axis: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"{name}: {axis}={text}: {error}") from None
