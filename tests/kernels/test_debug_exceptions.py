"""Kernels built with ``debug=True`` raise on the host what a thread has raised, as after a real launch.

PYTEST_DONT_REWRITE: an assert of a kernel must stay one.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda


class Refusal(Exception):
    """One of the user's own."""


@cuda.jit(debug=True, opt=False)
def refuses(values, kind):
    i = cuda.grid(1)
    if values[i] > 5:
        if kind == 1:
            raise Refusal("too large", 7)
        if kind == 2:
            raise ValueError
        assert kind == 0, "kind must be none"
    values[i] += 1


@cuda.jit(debug=True, opt=False)
def divides(out, x):
    out[0] = 1 // x[0]
    out[1] = 1


@cuda.jit(debug=True, opt=False)
def indexes(values):
    i = cuda.grid(1)
    values.shape[-1 - i]


def fresh():
    return np.arange(12, dtype=np.int64)


def test_a_debug_kernel_that_raises_nothing_ends_as_any_other(launch):
    values = fresh()
    launch(refuses, 3, 4, values, 0)
    assert (values == fresh() + 1).all()


def test_the_users_exception_names_line_thread_and_block(launch):
    values = fresh()
    with pytest.raises(Refusal) as caught:
        launch(refuses, 3, 4, values, 1)
    text, number = caught.value.args
    assert number == 7 and text.endswith(": too large")
    assert "In function 'refuses'" in text and "test_debug_exceptions.py, line " in text
    assert "tid=[0, 0, 2] ctaid=[0, 0, 1]" in text
    assert (values == fresh()).all(), "a launch that raises copies nothing back"


def test_an_exception_with_no_arguments_has_its_place_for_text(launch):
    with pytest.raises(ValueError, match=r"line \d+, tid=\[0, 0, 2\] ctaid=\[0, 0, 1\]$"):
        launch(refuses, 3, 4, fresh(), 2)


def test_an_assertion_says_its_text(launch):
    with pytest.raises(AssertionError, match="kind must be none"):
        launch(refuses, 3, 4, fresh(), 3)


def test_a_division_by_zero_stops_the_thread(launch):
    out = np.zeros(2, np.int64)
    with pytest.raises(ZeroDivisionError):
        launch(divides, 1, 1, out, np.zeros(1, np.int64))
    assert (out == 0).all()


def test_a_tuple_index_out_of_range_is_an_index_error(launch):
    with pytest.raises(IndexError, match="out of range"):
        launch(indexes, 1, 3, np.zeros(2, np.int64))
