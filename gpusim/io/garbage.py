"""When a command lets Python look for garbage: not while it loads its modules, nor among them, nor at its end.

Mental model: loading gpusim and Numba makes half a million objects that live until the process ends. Python looks
through them time and again as they are made, and once more at the end: a third of what loading costs, and nothing is
found. So the command line switches the collector off as it starts; once the modules are there, they are set aside, and
it is switched on for what the work makes.
"""

from __future__ import annotations

import gc
import sys

#: Net allocations between two looks; Python's own 700 suit programs that make little.
_ALLOCATIONS = 20_000
_starting = False


def starting() -> None:
    """The process belongs to one command, whose modules are loaded next."""
    global _starting
    _starting = True
    gc.disable()


def loaded(*, own_program: bool = True) -> None:
    """The command's modules are there; nothing but for a process that has said :func:`starting`. ``own_program``: all
    that follows is gpusim's; a user's program finds the collector as Python sets it."""
    global _starting
    if not _starting:
        return
    _starting = False
    if own_program:
        gc.freeze()
        seldom()
    gc.enable()


def seldom() -> None:
    """Look for garbage as a process of gpusim's own needs it."""
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])


def ending() -> None:
    """The command is done: what is left goes with the process. Where Triton is loaded it is collected as ever:
    nanobind, which binds its compiler, would list on stderr as leaks what no collection has taken."""
    if "triton" not in sys.modules:
        gc.freeze()
