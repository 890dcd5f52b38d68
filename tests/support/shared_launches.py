"""One kernel and one launch for many checks that differ in a function or a type.

Mental model: what a test costs is its kernel's compilation, not its numbers. So the functions of a table, or one
function for each type, are statements of one kernel, statement k working on the k-th array of each argument; the first
test that asks on an architecture launches it, and each test looks at its own arrays. Where that launch fails, each
statement is launched alone, so that the tests fail whose own it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import pytest
from numba import cuda

#: Of the keys of a table, the kernel that has a statement for each.
Maker = Callable[[Collection], Callable]
_LAUNCHED: dict[tuple, dict] = {}


def share(
    request: pytest.FixtureRequest,
    launch: Callable,
    make: Maker,
    shape: tuple,
    keys: Collection[Hashable],
    arguments: Callable[..., tuple],
    key: Hashable,
    *which: Hashable,
) -> tuple:
    """``arguments(key)`` after one launch of ``make(keys)``, ``shape`` (grid, block), with the arguments of all keys.

    The launch takes place once for a test function, an architecture of the fixture ``launch`` and ``which``."""

    def run(some: Collection[Hashable]) -> dict:
        cases = {one: arguments(one) for one in some}
        launch(make(some), *shape, *zip(*cases.values(), strict=True))
        return cases

    place = (request.function, request.node.callspec.params.get("launch"), *which)
    if place not in _LAUNCHED:
        _LAUNCHED[place] = _together_or_alone(run, keys)
    done = _LAUNCHED[place][key]
    if isinstance(done, Exception):
        raise done
    return done


def _together_or_alone(run: Callable[[Collection[Hashable]], dict], keys: Collection[Hashable]) -> dict:
    """key -> its arguments, or what went wrong: what each has alone, or, if none has, what all have together."""
    try:
        return run(keys)
    except Exception as error:
        alone: dict = {}
        for key in keys:
            try:
                alone |= run([key])
            except Exception as own:
                alone[key] = own
        failed = any(isinstance(one, Exception) for one in alone.values())
        return alone if failed else dict.fromkeys(keys, error)


def apply_each(functions: Mapping[Hashable, Callable], operands: int = 1) -> Maker:
    """Kernels of ``operands`` tuples of arrays and a tuple ``out``: ``out[k][i] = function(x[k][i], ...)``, of the k-th
    key."""
    names = "xyz"[:operands]

    def make(keys: Collection):
        calls = [f"out[{k}][i] = f{k}({', '.join(f'{n}[{k}][i]' for n in names)})" for k in range(len(keys))]
        body = ["i = cuda.grid(1)", "if i < out[0].size:", *(f"    {call}" for call in calls)]
        return _kernel("apply_each", [*names, "out"], body, [functions[key] for key in keys])

    return make


def for_each(part: Callable) -> Maker:
    """Kernels whose arguments are tuples: each thread calls ``part(a[k], b[k], ...)`` for k = 0, 1, ..."""
    names = list(inspect.signature(part).parameters)

    def make(keys: Collection):
        calls = [f"f{k}({', '.join(f'{n}[{k}]' for n in names)})" for k in range(len(keys))]
        return _kernel(part.__name__, names, calls, [cuda.jit(device=True)(part)] * len(keys))

    return make


def _kernel(name: str, names: Sequence[str], body: Sequence[str], functions: Sequence[Callable]):
    known = {"cuda": cuda} | {f"f{k}": function for k, function in enumerate(functions)}
    exec("\n".join([f"def {name}({', '.join(names)}):", *(f"    {line}" for line in body)]), known)
    return cuda.jit(known[name])
