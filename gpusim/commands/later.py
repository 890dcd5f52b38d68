"""What a command does, apart from how it is called: its options are known at once, its work is imported when it begins.

Mental model: a wrong option, an unknown name or ``--help`` needs nothing of the simulator, whose modules take a second
to load. So a command that people type is declared in one module and done in another, which this loads.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from gpusim.io.garbage import loaded

#: Whose work is a user's program.
RUNS_PROGRAMS = ("running", "running_programs")


def done_by(module: str | Callable[..., str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The decorated function declares a command, whose work the function of the same name in ``gpusim.commands``'
    ``module`` does (or in the one that ``module`` names for the options given). It runs first, and raises for mistakes
    that can be seen early."""

    def decorate(declared: Callable[..., None]) -> Callable[..., None]:
        def run(*context: Any, **options: Any) -> Any:
            declared(*context, **options)
            name = module if isinstance(module, str) else module(**options)
            work = getattr(importlib.import_module(f"gpusim.commands.{name}"), declared.__name__)
            loaded(own_program=name not in RUNS_PROGRAMS)
            return work(*context, **options)

        run.__name__, run.__doc__ = declared.__name__, declared.__doc__
        return run

    return decorate
