"""Projections that were made before: one look-up by GPU and operator.

Mental model: a model's step asks for the same operator of each layer, a sweep for the same of each configuration. A
description is the same when it is the same object: it holds tables, which have no hash, and is never changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from gpusim.gpus.spec import GpuSpec

_REMEMBERED = 1 << 16
Op = TypeVar("Op", bound=Hashable)
Asked = TypeVar("Asked", contravariant=True)
Result = TypeVar("Result")
Given = TypeVar("Given", covariant=True)


class Projecting(Protocol[Asked, Given]):
    """A function of a GPU, an operator and a power limit (None: the board's own)."""

    def __call__(self, spec: GpuSpec, op: Asked, limit_watts: float | None = None) -> Given: ...


class _Same:
    """A description by its identity; held, so that no other takes its place."""

    def __init__(self, spec: GpuSpec) -> None:
        self.spec = spec

    def __hash__(self) -> int:
        return id(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.spec is self.spec


def remembered(project: Callable[[GpuSpec, Op, float | None], Result]) -> Projecting[Op, Result]:
    """``project`` that works out each operator on each GPU under each power limit once, of the last 65,536."""

    @functools.lru_cache(_REMEMBERED)
    def known(same: _Same, op: Op, limit_watts: float | None) -> Result:
        return project(same.spec, op, limit_watts)

    @functools.wraps(project)
    def found(spec: GpuSpec, op: Op, limit_watts: float | None = None) -> Result:
        return known(_Same(spec), op, limit_watts)

    return found
