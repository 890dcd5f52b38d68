"""Do the tensor-core kernels run on tensor cores: how many products, from which instructions, in how many cycles?"""

from __future__ import annotations

import numpy as np
import pytest

from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.theory.bounds import lower_bounds
from gpusim.trace.record import MatrixType, PipeClass

pytestmark = pytest.mark.usefixtures("without_source_lines")

#: Kernel, shape, format, multiply-adds of a padded 80 x 72 problem in whole tiles.
PRODUCTS = [
    ("hgemm_tensor", {}, MatrixType.F16, 128 * 128 * 64),
    ("hgemm_tensor", {"depth": 16}, MatrixType.F16, 128 * 128 * 64),  # m16n8k16: not on Turing
    ("igemm_int8", {}, MatrixType.INT8, 128 * 128 * 128),
]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("name", "shape", "kind", "macs"), PRODUCTS)
def test_all_multiply_adds_are_tensor_core_products(name, shape, kind, macs):
    gpu = load_gpu("a100_80gb")
    case = make_case(name, shape, gpu, small=True)
    (launch,) = capture_case(case, gpu)
    case.check()
    trace = launch.trace
    code = trace.program.instructions
    done = 0
    for chunk in trace.chunks():
        prefix = np.concatenate(([0], np.cumsum(code["matrix_macs"], dtype=np.int64)))
        runs = chunk.runs
        first = runs["first"].astype(np.int64)
        per_run = prefix[first + runs["count"]] - prefix[first]
        totals = np.concatenate(([0], np.cumsum(per_run)))
        per_path = totals[chunk.path_start[1:]] - totals[chunk.path_start[:-1]]
        done += int(per_path[chunk.warps["path"]].sum())
    assert done == macs
    assert set(code["matrix_type"][code["pipe"] == PipeClass.TENSOR]) == {kind}
    assert any("LDSM.16.M" in text for text in trace.program.texts)
    bounds = lower_bounds(trace, gpu)
    assert 0 < bounds.cycles["pipe.tensor"] <= bounds.least_cycles <= simulate(trace, gpu).cycles
