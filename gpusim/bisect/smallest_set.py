"""The smallest set of changes that makes a difference: one alone where one does, else a few that need each other.

Mental model: half of the changes either make the difference, or the other half does, or it takes some of each: then
each half is looked through with the other applied (Zeller, "Yesterday, my program worked. Today, it does not. Why?",
ESEC/FSE 1999, algorithm dd+). That takes a logarithm of runs where one change or a few are the cause. What comes out is
then held to it: it makes the difference, and without any one of its members it does not. Where changes undo each other
the halves mislead, and members are taken away one by one instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic, TypeVar

T = TypeVar("T")
#: Whether these changes, and no others, make the difference; None where they cannot be tried.
Makes = Callable[[tuple[Any, ...]], bool | None]
#: So many smaller sets are tried before one of several members is called the smallest.
MOST_TRIED = 64


@dataclass(frozen=True)
class SmallestSet(Generic[T]):
    """``members`` in the order of the changes. ``is_smallest``: no smaller set makes the difference; else only that no
    member can be left out."""

    members: tuple[T, ...]
    is_smallest: bool


def smallest_set(changes: Sequence[T], makes: Makes) -> SmallestSet[T] | None:
    """The set of ``changes`` that ``makes`` the difference; None where all of them together do not."""
    whole = tuple(changes)
    if makes(whole) is not True:
        return None
    found = _ordered(whole, _by_halves(whole, (), whole, makes))
    if makes(found) is not True:
        found = whole
    found = _without_idle(found, makes)
    sizes = range(1, len(found))
    smaller = [tried for size in sizes for tried in _limited(whole, size)]
    for tried in smaller:
        if makes(tried) is True:
            return SmallestSet(tried, True)
    count = sum(_count(len(whole), size) for size in sizes)
    return SmallestSet(found, len(smaller) == count)


def _by_halves(changes: tuple[T, ...], applied: tuple[T, ...], whole: tuple[T, ...], makes: Makes) -> tuple[T, ...]:
    """Members among ``changes``, where ``applied`` are applied as well."""
    if len(changes) == 1:
        return changes
    halves = changes[: len(changes) // 2], changes[len(changes) // 2 :]
    for half in halves:
        if makes(_ordered(whole, half + applied)) is True:
            return _by_halves(half, applied, whole, makes)
    first, second = halves
    return _by_halves(first, second + applied, whole, makes) + _by_halves(second, first + applied, whole, makes)


def _without_idle(members: tuple[T, ...], makes: Makes) -> tuple[T, ...]:
    """``members`` less those that can be left out, one after another."""
    for member in members:
        rest = tuple(each for each in members if each != member)
        if rest and makes(rest) is True:
            members = rest
    return members


def _limited(whole: tuple[T, ...], size: int) -> list[tuple[T, ...]]:
    """All sets of ``size``, none where they are too many."""
    return list(combinations(whole, size)) if _count(len(whole), size) <= MOST_TRIED else []


def _count(many: int, size: int) -> int:
    found = 1
    for place in range(size):
        found = found * (many - place) // (place + 1)
    return found


def _ordered(whole: tuple[T, ...], chosen: tuple[T, ...]) -> tuple[T, ...]:
    wanted = set(chosen)
    return tuple(change for change in whole if change in wanted)
