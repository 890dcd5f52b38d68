"""``%load_ext gpusim`` in a real IPython: a cell's launches are predicted and shown as a table; mistakes are one
line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpusim.engine.result import Result

interactive = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed: gpusim[test]")

CELL = """
import numpy as np
from numba import cuda

@cuda.jit
def double(x):
    x[cuda.threadIdx.x] *= 2

x = np.ones(32, np.float32)
"""


@pytest.fixture(scope="module")
def shell() -> Iterator:
    made = interactive.InteractiveShell.instance()
    made.run_line_magic("load_ext", "gpusim")
    made.run_cell(CELL).raise_error()
    yield made
    interactive.InteractiveShell.clear_instance()


def test_a_cell_s_launches_are_its_value(shell) -> None:
    shown = shell.run_cell_magic("gpusim", "--gpu a100_80gb", "double[1, 32](x)\ndouble[1, 32](x)")
    assert isinstance(shown, Result) and shown.gpu == "a100_80gb" and len(shown.launches) == 2
    assert (shell.user_ns["x"] == 4).all()
    page, _ = shell.display_formatter.format(shown)
    assert page["text/html"].count("<td>double</td>") == 2 and f"{shown.cycles:,} cycles" in page["text/html"]


def test_mistakes_are_one_line(shell, capsys: pytest.CaptureFixture[str]) -> None:
    for options, cell, said in (
        ("--gpu h2000", "double[1, 32](x)", "h2000"),
        ("", "x + 1", "launched no kernel"),
        ("", "double.forall(32)(x)", "tpb"),
    ):
        done = shell.run_cell(f"%%gpusim {options}\n{cell}")
        assert not done.success and said in str(done.error_in_exec)
        assert len(capsys.readouterr().err.splitlines()) <= 1


def test_an_error_of_the_cell_is_its_own(shell) -> None:
    done = shell.run_cell("%%gpusim\n1 / 0")
    assert isinstance(done.error_in_exec, ZeroDivisionError)
    # The launches are Numba's again.
    assert type(shell.user_ns["double"]).configure.__module__.startswith("numba")
