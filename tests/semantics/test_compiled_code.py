"""What gpusim's own way to compile gives is what the same Python function gives."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from numba import config
from numba.core.errors import NumbaError

from gpusim.model.compiled import compiled, inlined, inner

pytestmark = pytest.mark.skipif(bool(getattr(config, "DISABLE_JIT")), reason="nothing is compiled")  # noqa: B009
State = namedtuple("State", "table vector inside")
Inside = namedtuple("Inside", "small words")


@inner
def _step(state, row, by):
    """Arguments in parts, a tuple for a result; no index counts from the end, compiled code has none."""
    state.table[row, state.table.shape[1] - 1] += by
    return state.table[row, 0] + by, state.inside.small[row]


@inlined
def _row_sum(row):
    total = 0
    for value in row:
        total += value
    return total


@inner
def _divided(a, b):
    return a // b


def _mixed(state, strided, start, stop, divisor):
    """Loops, views, columns of another layout, extremes, branches that meet, unsigned and narrow numbers."""
    total, last = 0, -1
    for i in range(start, stop, 2):
        if i % 3 == 0:
            last = max(i, 4)
        first, small = _step(state, i, min(i, 3))
        total += first + small + last
    for i in range(len(state.vector)):
        total += strided[i] * state.vector[len(state.vector) - 1 - i]
    row = state.table[1]
    row[0] = _row_sum(state.table[2])
    rows, columns = state.table.shape
    words = state.inside.words
    words[0] = words[1] + words[2]
    words[1] = np.uint32(total)
    pair = (total, row[0]) if total > rows * columns else (last, rows)
    return pair[0], pair[1], _divided(total, divisor)


def _arguments():
    table = np.arange(24, dtype=np.int64).reshape(6, 4)
    inside = Inside(np.array([1, -2, 3, -4, 5, -6], np.int8), np.array([7, 2**32 - 3, 9], np.uint32))
    return State(table, np.array([2, 3, 5], np.int64), inside), np.arange(12, dtype=np.int64)[::4]


@pytest.fixture(scope="module")
def mixed():
    return compiled(_mixed)


@pytest.mark.parametrize(("start", "stop"), [(0, 6), (1, 5), (4, 4), (5, 2)])
def test_compiled_code_does_what_its_source_says(mixed, start, stop, monkeypatch):
    for name in ("_step", "_row_sum", "_divided"):
        monkeypatch.setitem(_mixed.__globals__, name, globals()[name].py_func)
    state, strided = _arguments()
    with np.errstate(over="ignore"):
        wanted = _mixed(state, strided, start, stop, 7)
    monkeypatch.undo()
    other, _ = _arguments()
    assert mixed(other, strided, start, stop, 7) == wanted
    for mine, theirs in zip((other.table, other.inside.words), (state.table, state.inside.words), strict=True):
        assert mine.tolist() == theirs.tolist()


def test_what_fails_in_an_inner_function_is_raised_by_the_one_that_python_calls(mixed):
    state, strided = _arguments()
    with pytest.raises(ZeroDivisionError):
        mixed(state, strided, 0, 6, 0)


def test_a_function_that_catches_is_refused():
    @compiled
    def catches(n):
        try:
            return _divided(1, n)
        except Exception:
            return 0

    with pytest.raises(NumbaError, match="try"):
        catches(0)
