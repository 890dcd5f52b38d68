"""Gluon kernels of the kinds that Triton's Gluon tutorials teach: results against NumPy, and no finding of the
checks."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import gpusim
from gpusim.sanitizer.checks import CHECKS

pytest.importorskip("triton.experimental.gluon.language.nvidia.blackwell.clc", reason="needs a Triton with Gluon")
pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.usefixtures("without_source_lines")
CASES: dict[str, Any] = importlib.import_module("gluon_cases").CASES
#: Each on one GPU, half of them by day.
BY_DAY = [(name, gpus[place % len(gpus)]) for place, (name, (_, gpus)) in enumerate(CASES.items())]
NIGHTLY = [(name, gpu) for name, (_, gpus) in CASES.items() for gpu in gpus if (name, gpu) not in BY_DAY]


@pytest.mark.by_day(14)
@pytest.mark.parametrize(
    ("name", "gpu"), [*BY_DAY, *(pytest.param(*each, marks=pytest.mark.nightly) for each in NIGHTLY)]
)
def test_what_it_leaves_is_right_and_nothing_is_found(name: str, gpu: str) -> None:
    made = CASES[name][0]()
    trace = gpusim.capture(made.kernel, made.grid, None, made.args, gpu=gpu, check=CHECKS)
    made.check()
    assert not trace.findings
