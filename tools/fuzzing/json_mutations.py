"""Mutations of JSON: a value somewhere in it becomes another, of the same type or not; keys go, come and change.

Files of JSON lines are mutated in one of their lines. What no longer is JSON is mutated as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from fuzzing.byte_mutations import NUMBERS, WHOLE, WORDS, encoded, mutate_text

#: How deeply a value is buried to see whether a reader recurses.
_DEEP = (2, 60, 400, 900, 950, 980, 3000, 100_000)


def any_value(rng: Random) -> Any:
    """A value that a file might hold where it should not."""
    return one_of(
        rng, None, True, False, rng.choice(WHOLE), -rng.choice(WHOLE), rng.choice(WORDS), rng.choice(NUMBERS), 0.5, -0.0,
        1e308, float("nan"), float("inf"), 10**400, [], {}, [None], {"": 0}, [[]], "x" * 70_000, [0] * 3000, _buried(rng),
    )  # fmt: skip


def one_of(rng: Random, *values: Any) -> Any:
    """One of values of any types: finding what type a tuple of twenty has takes pyright seconds."""
    return rng.choice(values)


def _buried(rng: Random) -> Any:
    """A value that Python's JSON can just write: a reader that shows it, or writes it again, has less of the stack
    left."""
    value: Any = 0
    for _ in range(rng.choice((100, 400, 800, 900))):
        value = [value] if rng.random() < 0.9 else {"k": value}
    return value


def mutate_value(value: Any, rng: Random) -> Any:
    """``value`` with one place of it changed; containers are changed in place."""
    places = list(_places(value))
    if not places:
        return any_value(rng)
    owner, key = rng.choice(places)
    what = rng.random()
    if what < 0.35:
        owner[key] = any_value(rng)
    elif what < 0.5:
        owner[key] = _near(owner[key], rng)
    elif what < 0.65:
        del owner[key]
    elif what < 0.8:
        other_owner, other_key = rng.choice(places)
        owner[key] = _copied(other_owner[other_key])
    elif what < 0.9:
        if isinstance(owner, dict):
            owner[rng.choice((*WORDS, str(key) + " ", str(key).upper()))] = owner.pop(key)
        else:
            owner.insert(key, _copied(owner[key]))
    else:
        owner[key] = {"k": owner[key]} if rng.random() < 0.5 else [owner[key]]
    return value


def _copied(value: Any) -> Any:
    """Another of the same, 0 where it is too deep, or too long a number, to be written here."""
    try:
        return json.loads(json.dumps(value))
    except (ValueError, RecursionError):
        return 0


def _near(value: Any, rng: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        if value >= 1 << 1000:
            return rng.choice((0, 1))
        return one_of(rng, value + 1, value - 1, -value, value * 1000, str(value)[:4000])
    if isinstance(value, float):
        return one_of(rng, value + 1, -value, value * 1000, value / 2, str(value), 0)
    if isinstance(value, str):
        cut = rng.randrange(len(value) + 1)
        return rng.choice((value[:cut], value[:cut] + rng.choice(WORDS) + value[cut:], value * 2, value.upper()))
    if isinstance(value, list):
        return rng.choice((value[::-1], value * 3, value[:-1]))
    return value


def _places(value: Any) -> Any:
    """(container, key) of every value inside."""
    todo = [value]
    while todo:
        owner = todo.pop()
        for key, inner in list(owner.items() if isinstance(owner, dict) else enumerate(owner)) if owner else ():
            yield owner, key
            if isinstance(inner, dict | list):
                todo.append(inner)


def mutate_json(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """Another document; a fifth of the time another text."""
    if rng.random() < 0.2:
        return mutate_text(data, rng, others)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_text(data, rng, others)
    if rng.random() < 0.02:
        depth = rng.choice(_DEEP)
        return b"[" * depth + data[:200] + b"]" * depth
    if isinstance(value, dict | list):
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            value = mutate_value(value, rng)
            if not isinstance(value, dict | list):
                break
    return _dumped(value, rng)


def _dumped(value: Any, rng: Random) -> bytes:
    try:
        return encoded(json.dumps(value, ensure_ascii=rng.random() < 0.5))
    except (ValueError, RecursionError):
        return b"null"


def mutate_json_lines(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A file of one JSON value a line, one of them changed."""
    if rng.random() < 0.2:
        return mutate_text(data, rng, others)
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(lines[at], rng, others).replace(b"\n", b" ")
    return b"\n".join(lines)
