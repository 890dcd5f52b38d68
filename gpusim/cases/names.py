"""The names of the suite's entries, and whether a text can be one, without loading any of them.

Mental model: whether ``sxapy:n=8`` can be simulated is known before the simulator is there.

Raises :class:`UnknownKernelError` for a name, :class:`UsageError` for a shape that is not written as one.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import is_zipfile

from gpusim.cases.axis_values import parse_value
from gpusim.cases.native_names import is_native, split_native
from gpusim.cases.requests import parse_request
from gpusim.cases.user_source import refuse_by_source
from gpusim.errors import TraceFormatError, UnknownKernelError, UsageError
from gpusim.io.nearest import hint
from gpusim.io.sibling import load_sibling

REFERENCE = re.compile(r"^(?P<path>.+\.py):(?P<name>[^\W\d]\w*)$")


def suite() -> ModuleType:
    """The suite's package."""
    return load_sibling("kernels", "the kernel suite")


def kernel_names() -> list[str]:
    """The names of the suite's entries, in reading order."""
    return suite().names()


def general_names() -> list[str]:
    """The names of the entries that more than one architecture runs."""
    kernels = suite()
    return [name for name in kernels.names() if kernels.needs(name) is None]


def is_reference(name: str) -> bool:
    """Whether ``name`` names something in a file: ``path.py:name``."""
    return REFERENCE.match(name) is not None


def is_path(name: str) -> bool:
    """Whether ``name`` can only be a file's."""
    # A shape may hold a point (spread=1.0) that is no file's suffix.
    return (
        not is_reference(name) and not is_native(name) and (Path(name).suffix != "" or Path(name).parent != Path("."))
    )


def refuse_unknown(texts: Iterable[str], *, sweep: bool = False) -> None:
    """Raise for the first of ``texts`` that names neither a trace file that is here nor a launch. Of a ``sweep`` a
    point that a kernel does not take is a row of its result."""
    for text in texts:
        path = Path(text)
        if path.is_file():
            refuse_no_trace(path)
            continue
        if path.is_dir():
            raise UsageError(f"{text} is a folder; name its trace files one by one")
        name, _ = parse_request(text)
        if is_path(name):
            raise UsageError(f"there is no trace file {text}")
        if sweep:
            refuse_unknown_request(text, sweep=True)
        else:
            refuse_unknown_launch(text)


def refuse_no_trace(path: Path) -> None:
    """Raise if the file at ``path`` cannot be a trace: it is Python, or no archive at all."""
    if path.suffix == ".py":
        raise UsageError(f"{path} is a Python file: name a function in it that makes a launch, {path}:FUNCTION")
    if not is_zipfile(path):
        raise TraceFormatError(f"{path}: not a readable trace file (File is not a zip file)")


def refuse_unknown_kernel(name: str) -> None:
    """Raise if ``name`` is neither an entry of the suite nor written as a function or a kernel of a file that is
    there."""
    native = split_native(name)
    if native is not None:
        if not Path(native[0]).is_file():
            raise UnknownKernelError(f"there is no file {native[0]}")
        return
    reference = REFERENCE.match(name)
    if reference is not None:
        if not Path(reference["path"]).is_file():
            raise UnknownKernelError(f"there is no file {reference['path']}")
        refuse_by_source(Path(reference["path"]), reference["name"], {})
    elif name not in kernel_names():
        raise UnknownKernelError(unknown(name))


def refuse_unknown_request(text: str, *, sweep: bool = False) -> None:
    """Raise if ``text`` names no kernel, as :func:`refuse_unknown_kernel` says, or a shape that an entry of the suite
    or a function, by its source, does not take."""
    name, shape = parse_request(text)
    refuse_unknown_kernel(name)
    reference = REFERENCE.match(name)
    if reference is not None:
        refuse_by_source(Path(reference["path"]), reference["name"], shape)
    if reference is not None or is_native(name):
        return
    declared = suite().declared(name) if shape else None
    if declared is None:
        return
    for axis in shape:
        if axis not in declared.default:
            raise no_axis(name, axis, declared.default)
    values = {
        axis: value_of(name, axis, value, declared.default[axis], axis in declared.fractional)
        for axis, value in shape.items()
    }
    try:
        if not sweep:
            declared.refuse(values)
    except ValueError as error:
        raise no_case(name, shape, error) from None


def refuse_unknown_launch(text: str) -> None:
    """As :func:`refuse_unknown_request`; a kernel of a file also for a launch that is missing or makes no sense."""
    refuse_unknown_request(text)
    name, shape = parse_request(text)
    if is_native(name):
        # NumPy comes with it: a tenth of a second that the others need not wait.
        importlib.import_module("gpusim.cases.native_shapes").complete_native_shape(name, shape)


def value_of(name: str, axis: str, value: Any, like: Any, fractional: bool) -> Any:
    """``value`` of entry ``name``'s axis, read as :func:`gpusim.cases.axis_values.parse_value` does where it is a
    text."""
    if not isinstance(value, str):
        return value
    try:
        return parse_value(value, like, fractional)
    except ValueError as error:
        raise UsageError(f"kernel {name}: {axis}={value}: {error}") from None


def no_case(name: str, shape: Mapping[str, Any], error: Exception) -> UsageError:
    """What is said of a shape that a kernel does not take."""
    asked = f"{name}:{shape_text(shape)}" if shape else name
    return UsageError(f"kernel {asked}: {error}")


def shape_text(shape: Mapping[str, Any]) -> str:
    """A complete shape as the one text by which measured and simulated launches find each other: ``m=64,n=128``."""
    return ",".join(f"{axis}={value}" for axis, value in shape.items())


def no_axis(name: str, axis: str, axes: Iterable[str]) -> UsageError:
    """What is said of an axis that entry ``name``, which has ``axes``, has not."""
    return UsageError(f"kernel {name} has no axis {axis!r}; it has {', '.join(axes)}")


def unknown(name: str) -> str:
    """The message for a name that is none of the suite's."""
    if Path(name).suffix in (".json", ".py", ".trace", ".csv", ".jsonl"):
        return f"{name} is neither a file here nor a kernel of the suite"
    if package := suite().lacks(name):
        return f"{name} needs the package {package}, which is not installed: pip install 'gpusim[{package}]'"
    names = kernel_names()
    near = hint(name, names, f"`gpusim kernels list` names all {len(names)}")
    return f"no kernel called {name!r} in the suite; {near}"
