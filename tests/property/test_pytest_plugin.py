"""Property tests on cycles as a kernel team writes them: the decorator, the fixtures, the options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusim.errors import UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.workload import workload

TEAM_TESTS = """
import numpy as np
from numba import cuda

import gpusim

seen = []


@gpusim.workload("saxpy")
def test_cycles_are_above_the_bound(run):
    seen.append(run.shape)
    assert run.cycles > run.least_cycles > 0
    assert run.time_us > 0 and run.counters["smsp__inst_executed.sum"] > 0
    run.check()


def test_examples_were_drawn():
    assert len(seen) == 20


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


class Case:
    def __init__(self, n):
        if n % 7 == 0:
            raise ValueError("not today")
        self.x = np.ones(n, np.float32)
        self.launches = (gpusim_launch(double, (1 + n // 64,), (64,), (self.x,)),)

    def check(self):
        assert (self.x == 2).all()


class gpusim_launch:
    shared_bytes, timed = 0, True

    def __init__(self, kernel, grid, block, args):
        self.kernel, self.grid, self.block, self.args = kernel, grid, block, args


@gpusim.workload(Case, axes={"n": (100, 1000)}, small={"n": 50})
def test_a_kernel_of_our_own(run, tmp_path_factory):
    assert run.shape["n"] % 7 and tmp_path_factory
    run.check()


class TestOfAClass:
    shapes = []

    @gpusim.workload(Case, axes={"n": (100,)}, small={"n": 50}, max_examples=3)
    def test_takes_a_run_as_well(self, run, tmp_path_factory):
        assert run.cycles > 0 and tmp_path_factory
        self.shapes.append(run.shape)

    def test_as_often_as_asked_for(self):
        assert len(self.shapes) == 3


def doubled(n=50):
    return double, 1, n, (np.ones(n, np.float32),)


@gpusim.workload(doubled, axes={"n": (100, 1000)}, small={"n": 50})
def test_a_plain_case_of_our_own_fails(run):
    assert run.shape["n"] < 40


@gpusim.workload("saxpy:block_threads=128")
def test_that_fails(run):
    assert run.cycles and run.shape["n"] < 300


def test_fixtures(gpusim_simulate, gpusim_gpu):
    x = np.ones(100, np.float32)
    result = gpusim_simulate(double, 1, 128, (x,))
    assert (x == 2).all() and result.gpu == gpusim_gpu.name == "a100_80gb"
"""


def test_a_team_s_tests_run_shrink_and_keep_their_coverage(tmp_path: Path) -> None:
    (tmp_path / "test_team.py").write_text(TEAM_TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--gpusim-gpu", "a100_80gb",
         "--gpusim-coverage", "covered.json", "test_team.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "2 failed, 6 passed" in done.stdout, done.stdout + done.stderr
    assert "saxpy:n=300,block_threads=128 @ a100_80gb" in done.stdout
    assert "cycles (" in done.stdout and "resident warps wait for" in done.stdout
    assert "gpusim simulate saxpy:n=300,block_threads=128 --gpu a100_80gb --why" in done.stdout
    assert "gpusim simulate test_team.py:doubled:n=40 --gpu a100_80gb --why" in done.stdout
    # A failure is shown in the team's file, with nothing of ours between.
    assert "explore/workload.py" not in done.stdout and "def told" not in done.stdout
    covered = Coverage.load(tmp_path / "covered.json")
    assert covered.launches >= 20 and ("block_threads", "128") not in covered.holes()


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(UsageError, match="axes="):
        workload(lambda n: None)

    def test_it(run): ...

    with pytest.raises(UsageError, match=r"a test in the place of a kernel: write @gpusim.workload\(KERNEL\)"):
        workload(test_it)
    with pytest.raises(UsageError, match="no axis 'colour'"):
        workload("saxpy:colour=3")
