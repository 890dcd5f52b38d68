"""The names of the suite's entries, and whether a text can be one, without loading any of them.

Mental model: whether ``sxapy:n=8`` can be simulated is known before the simulator is there.

Raises :class:`UnknownKernelError` for a name, :class:`UsageError` for a shape that is not written as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from gpusim.cases.native_names import is_native, split_native
from gpusim.cases.requests import parse_request
from gpusim.errors import UnknownKernelError, UsageError
from gpusim.io.nearest import hint
from gpusim.io.sibling import load_sibling

REFERENCE = re.compile(r"^(?P<path>.+\.py):(?P<name>[^\W\d]\w*)$")


def suite() -> ModuleType:
    """The suite's package."""
    return load_sibling("kernels", "the kernel suite")


def kernel_names() -> list[str]:
    """The names of the suite's entries, in reading order."""
    return suite().names()


def is_reference(name: str) -> bool:
    """Whether ``name`` names something in a file: ``path.py:name``."""
    return REFERENCE.match(name) is not None


def is_path(name: str) -> bool:
    """Whether ``name`` can only be a file's."""
    # A shape may hold a point (spread=1.0) that is no file's suffix.
    return (
        not is_reference(name) and not is_native(name) and (Path(name).suffix != "" or Path(name).parent != Path("."))
    )


def refuse_unknown(texts: Iterable[str]) -> None:
    """Raise for the first of ``texts`` that names neither what exists here nor an entry of the suite."""
    for text in texts:
        if Path(text).exists():
            continue
        name, _ = parse_request(text)
        if is_path(name):
            raise UsageError(f"there is no trace file {text}")
        refuse_unknown_request(text)


def refuse_unknown_kernel(name: str) -> None:
    """Raise if ``name`` is neither an entry of the suite nor written as a function or a kernel of a file that is there."""
    native = split_native(name)
    if native is not None:
        if not Path(native[0]).is_file():
            raise UnknownKernelError(f"there is no file {native[0]}")
        return
    reference = REFERENCE.match(name)
    if reference is not None:
        if not Path(reference["path"]).is_file():
            raise UnknownKernelError(f"there is no file {reference['path']}")
    elif name not in kernel_names():
        raise UnknownKernelError(unknown(name))


def refuse_unknown_request(text: str) -> None:
    """Raise if ``text`` names no kernel, as :func:`refuse_unknown_kernel` says, or an axis that an entry of the suite has not."""
    name, shape = parse_request(text)
    refuse_unknown_kernel(name)
    axes = None if is_reference(name) or is_native(name) else suite().axes(name)
    if axes is not None:
        for axis in shape:
            if axis not in axes:
                raise no_axis(name, axis, axes)


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
