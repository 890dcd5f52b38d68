"""One kernel and one launch for many checks that differ in a function or a type.

Mental model: what a test costs is its kernel's compilation, not its numbers. So the functions of a table, or one function for
each type, are statements of one kernel, statement k working on the k-th array of each argument; the first test that asks on
an architecture launches it, and each test looks at its own arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence

import pytest
from numba import cuda

_LAUNCHED: dict[tuple, dict] = {}


def share(
    request: pytest.FixtureRequest,
    launch: Callable,
    kernel,
    shape: tuple,
    keys: Iterable[Hashable],
    arguments: Callable[..., tuple],
    *which: Hashable,
) -> dict:
    """key -> its arguments, ``arguments(key)``, after one launch of ``kernel``, ``shape`` (grid, block), with those of all keys.

    The launch takes place once for a test function, an architecture of the fixture ``launch`` and ``which``."""
    place = (request.function, request.node.callspec.params.get("launch"), *which)
    if place not in _LAUNCHED:
        cases = {key: arguments(key) for key in keys}
        launch(kernel, *shape, *zip(*cases.values(), strict=True))
        _LAUNCHED[place] = cases
    return _LAUNCHED[place]


def apply_each(functions: Sequence[Callable], operands: int = 1):
    """A kernel of ``operands`` tuples of arrays and a tuple ``out``: ``out[k][i] = functions[k](x[k][i], ...)``."""
    names = "xyz"[:operands]
    calls = [f"out[{k}][i] = f{k}({', '.join(f'{n}[{k}][i]' for n in names)})" for k in range(len(functions))]
    body = ["i = cuda.grid(1)", "if i < out[0].size:", *(f"    {call}" for call in calls)]
    return _kernel("apply_each", [*names, "out"], body, functions)


def for_each(part: Callable, count: int):
    """A kernel whose arguments are tuples of ``count``: each thread calls ``part(a[k], b[k], ...)`` for k = 0, 1, ..."""
    names = list(inspect.signature(part).parameters)
    calls = [f"f{k}({', '.join(f'{n}[{k}]' for n in names)})" for k in range(count)]
    return _kernel(part.__name__, names, calls, [cuda.jit(device=True)(part)] * count)


def _kernel(name: str, names: Sequence[str], body: Sequence[str], functions: Sequence[Callable]):
    known = {"cuda": cuda} | {f"f{k}": function for k, function in enumerate(functions)}
    exec("\n".join([f"def {name}({', '.join(names)}):", *(f"    {line}" for line in body)]), known)
    return cuda.jit(known[name])
