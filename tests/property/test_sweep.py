"""Every kernel of the suite on GPUs of five generations: no result contradicts itself (tools/sweep.py)."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from tools.sweep import GPUS, broken_laws

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", GPUS)
def test_all_laws_hold_for_the_suite(gpu):
    done = subprocess.run([sys.executable, TOOLS / "sweep.py", "--gpu", gpu], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_sweep_sees_a_result_that_contradicts_itself():
    gpu = load_gpu("t4")
    trace = capture_case(make_case("saxpy", {}, gpu, small=True), gpu)[0].trace
    (launch,) = simulate(trace, gpu).launches
    assert list(broken_laws(trace, launch)) == []

    def broken(**changes: float) -> list[str]:
        return list(broken_laws(trace, replace(launch, counters=launch.counters | changes)))

    name = "smsp__inst_executed.sum"
    assert "warp instructions issued" in broken(**{name: launch.counters[name] + 1})[0]
    assert "stall reasons add up" in broken(**{"sm__warps_active.sum": 1})[0]
    assert "negative" in broken(**{"tlb__misses.sum": -1})[0]
    assert "L2 looked up" in broken(**{"lts__t_sectors_lookup_hit.sum": 1})[0]
    late = launch.block_times.copy()
    late[0, 1] = launch.cycles + 1
    assert "outside" in next(broken_laws(trace, replace(launch, block_times=late)))
