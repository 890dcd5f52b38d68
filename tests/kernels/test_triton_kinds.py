"""Triton kernels of the kinds that its tutorials teach, as `tools/triton_forms.py` surveys them: do they leave NumPy's
results?"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

import gpusim

pytest.importorskip("triton", reason="Triton is not installed: pip install 'gpusim[triton]'")
pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.usefixtures("without_source_lines")
CASES: dict[str, Callable[[], Any]] = importlib.import_module("triton_cases").CASES
GPUS = ("h200", "b200", "rtx5090", "b300")
#: What runs by day: kinds that other tests do not have, each on one GPU that makes other code of it than the rest.
BY_DAY = [
    ("product_cluster", "h200"),
    ("attention_special_causal", "b200"),
    ("attention_fp8", "rtx5090"),
]
#: Their tiles take more shared memory than sm_120 has, which Triton's own launcher refuses as well.
TOO_LARGE = {
    (name, "rtx5090") for name in ("persistent_special", "persistent_special_wide", "attention_special_causal")
}
NIGHTLY = [(name, gpu) for name in CASES for gpu in GPUS if (name, gpu) not in TOO_LARGE.union(BY_DAY)]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("name", "gpu"), [*BY_DAY, *(pytest.param(*each, marks=pytest.mark.nightly) for each in NIGHTLY)]
)
def test_what_it_leaves_is_right(name: str, gpu: str) -> None:
    made = CASES[name]()
    given = {} if made.memory is None else {"memory": made.memory}
    gpusim.capture(made.kernel, made.grid, None, made.args, gpu=gpu, **given)
    made.check()


def test_every_kind_has_a_case() -> None:
    assert set(CASES) == set(importlib.import_module("triton_kinds").KINDS)
