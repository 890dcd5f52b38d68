"""Which front end takes a kernel: those of gpusim and of every installed package, asked one after another.

Mental model: front ends are entry points of the group ``gpusim.frontends``. Each is imported when a kernel has to be
placed and asked whether it accepts it, gpusim's own first. One whose own requirements are not installed accepts
nothing, and is named only where nobody else takes the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

from gpusim.errors import PluginError, UsageError
from gpusim.frontend.protocol import Choice, FrontEnd, TakeLaunch
from gpusim.io.plugins import Plugin, plugins
from gpusim.launch.binary import KernelBinary

GROUP = "gpusim.frontends"
#: gpusim's own, as ``pyproject.toml`` declares them.
OWN = {
    "numba": "gpusim.frontend.numba.frontend:FRONT_END",
    "cuda_cpp": "gpusim.frontend.native.front_ends:CUDA_CPP",
    "ptx": "gpusim.frontend.native.front_ends:PTX",
    "cubin": "gpusim.frontend.native.front_ends:CUBIN",
    "triton": "gpusim.frontend.triton.front_end:TRITON",
    "cute": "gpusim.frontend.cute.frontend:FRONT_END",
}


def front_end_of(kernel: object) -> FrontEnd:
    """The front end that accepts ``kernel``. Raises UsageError, with what each one takes, if there is none, PluginError
    for a package whose front end is broken where no other takes the kernel."""
    found, problems = _find(kernel)
    if found is not None:
        return found
    broken = next((error for error in problems if not isinstance(error.__cause__, ImportError)), None)
    if broken is not None:
        raise broken
    what = getattr(kernel, "__name__", None) or type(kernel).__name__
    known = _front_ends(tuple(sys.path))[0]
    remedies = "; or ".join(f"{each.takes} (front end {each.name})" for each in known) or "a kernel of a front end"
    missing = "".join(f"; {error}" for error in problems)
    raise UsageError(f"{what!s} is not a kernel that any front end takes: give {remedies}{missing}")


def is_kernel(value: object) -> bool:
    """Whether some front end accepts ``value``."""
    return _find(value)[0] is not None


def is_device_function(value: object) -> bool:
    """Whether ``value`` is a function that only kernels can call, as the front end that accepts it says."""
    found = _find(value)[0]
    return found is not None and getattr(found, "is_device_function", lambda kernel: False)(value)


def compile_kernel(kernel: Any, args: tuple, capability: tuple[int, int], *, lines: bool = True) -> KernelBinary:
    """The machine code of ``kernel`` for ``args``, by the front end that accepts it: see :meth:`FrontEnd.compile`."""
    return front_end_of(kernel).compile(kernel, tuple(args), capability, lines=lines)


def grid_arguments(kernel: Any, binary: KernelBinary, args: tuple) -> Mapping[str, Any]:
    """What a grid that is a function is called with: see :meth:`FrontEnd.grid_arguments`."""
    front_end = front_end_of(kernel)
    if not hasattr(front_end, "grid_arguments"):  # a front end may be written without deriving from the protocol
        return binary.constants
    return front_end.grid_arguments(kernel, binary, tuple(args))


def choice_of(kernel: Any, args: tuple) -> Choice | None:
    """The variants among which a launch of ``kernel`` chooses by time: see :meth:`FrontEnd.choice`."""
    front_end = front_end_of(kernel)
    return front_end.choice(kernel, tuple(args)) if hasattr(front_end, "choice") else None


@contextmanager
def launching(take: TakeLaunch) -> Iterator[None]:
    """While it is entered, launches that a program writes in its language's own way go to ``take``, whichever front
    end's the kernel is: see :meth:`FrontEnd.launching`."""
    with ExitStack() as stack:
        for each in _front_ends(tuple(sys.path))[0]:
            if hasattr(each, "launching"):  # a front end may be written without deriving from the protocol
                stack.enter_context(each.launching(take))
        yield


def _find(kernel: object) -> tuple[FrontEnd | None, list[PluginError]]:
    known, problems = _front_ends(tuple(sys.path))
    return next((each for each in known if each.accepts(kernel)), None), problems


@lru_cache(maxsize=8)
def _front_ends(path: tuple[str, ...]) -> tuple[list[FrontEnd], list[PluginError]]:
    """The front ends that packages on ``path`` offer, and why others could not be loaded."""
    loaded, problems = [], []
    for plugin in plugins(GROUP, OWN).values():
        try:
            loaded.append(_load(plugin))
        except PluginError as error:
            problems.append(error)
    return loaded, problems


def _load(plugin: Plugin) -> FrontEnd:
    found = plugin.load()
    absent = [name for name in ("name", "takes", "accepts", "compile", "pack") if not hasattr(found, name)]
    if absent or isinstance(found, type):
        raise plugin.broken("is a class, not an object" if isinstance(found, type) else f"has no {absent[0]}")
    return found
