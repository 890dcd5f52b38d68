"""What production launches, from recordings and from traces of other tools: totals by kernel and shape, and facts of
timing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusim.production.profiling import profile as profile

#: What a user's program asks for; loaded when first used.
_HOMES = {"profile": "gpusim.production.profiling"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gpusim.production' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
