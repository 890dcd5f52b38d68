"""The pytest plugin: options, fixtures and a coverage file for tests that simulate.

Mental model: installed with gpusim, it adds nothing to a run that does not use it; everything heavy is imported when a
fixture or ``@gpusim.workload`` is first used. ``--gpusim-gpu`` and ``--gpusim-profile`` choose for the whole
session; ``--gpusim-coverage FILE`` keeps what all workloads together exercised, for ``gpusim cover``. The fixture
``gpusim_benchmark`` predicts what a test launches; ``--gpusim-save FILE`` keeps the figures, ``--gpusim-compare FILE``
shows them beside, and ``--gpusim-compare-fail PERCENT`` fails the session where one has grown.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from gpusim.pytest_benchmarks import Benchmark, Benchmarks

_WORKLOAD = "gpusim.explore.workload"
_BENCHMARKS: pytest.StashKey[Benchmarks] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the group ``gpusim``."""
    group = parser.getgroup("gpusim", "simulated GPU kernels")
    group.addoption("--gpusim-gpu", default=None, metavar="NAME", help="GPU that tests simulate (default: h200)")
    group.addoption(
        "--gpusim-profile",
        choices=("ci", "nightly"),
        default=None,
        help="ci: few examples, the same every time (default); nightly: many, new ones",
    )
    group.addoption("--gpusim-coverage", default=None, metavar="FILE", help="write what the workloads exercised")
    group.addoption("--gpusim-save", default=None, metavar="FILE", help="keep what gpusim_benchmark predicted")
    group.addoption("--gpusim-compare", default=None, metavar="FILE", help="compare with what --gpusim-save kept")
    group.addoption(
        "--gpusim-compare-fail",
        default=None,
        type=float,
        metavar="PERCENT",
        help="fail the session where a test takes more than this many percent more cycles than in --gpusim-compare",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take over the session's choices, before test files are imported."""
    config.stash[_BENCHMARKS] = Benchmarks(config)
    gpu, profile = config.getoption("--gpusim-gpu"), config.getoption("--gpusim-profile")
    if gpu or profile:
        defaults = importlib.import_module(_WORKLOAD).Defaults
        defaults.gpu = gpu or defaults.gpu
        defaults.profile = profile or defaults.profile


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the coverage file, if one was asked for."""
    path = session.config.getoption("--gpusim-coverage")
    worker = getattr(session.config, "workerinput", None)
    if path and _WORKLOAD in sys.modules:
        # Under pytest-xdist each worker has its own runs: a file each, for `gpusim cover merge`.
        name = f"{path}.{worker['workerid']}" if worker else path
        sys.modules[_WORKLOAD].Defaults.coverage.save(Path(name))
    session.config.stash[_BENCHMARKS].finish(session)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Gather what a worker of pytest-xdist has predicted."""
    node.config.stash[_BENCHMARKS].gather(getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """A line for each benchmark, with the change since the file that it is compared with."""
    lines = config.stash[_BENCHMARKS].lines()
    if lines:
        terminalreporter.section("gpusim: predicted cycles")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def gpusim_benchmark(request: pytest.FixtureRequest, gpusim_gpu: Any) -> Benchmark:
    """``gpusim_benchmark(function, *args)``: predict the launches of one call, keep the figure, return what it
    returns."""
    return Benchmark(request.node.nodeid, gpusim_gpu, request.config.stash[_BENCHMARKS])


@pytest.fixture(scope="session")
def gpusim_gpu(pytestconfig: pytest.Config) -> Any:
    """The GPU description that the session simulates."""
    load = importlib.import_module("gpusim.gpus.load").load_gpu
    return load(pytestconfig.getoption("--gpusim-gpu") or "h200")


@pytest.fixture
def gpusim_simulate(gpusim_gpu: Any) -> Any:
    """``gpusim_simulate(kernel, grid, block, args, shared_bytes=0) -> Result``: one launch of a Numba kernel,
    captured and simulated on the session's GPU. The arrays in ``args`` hold the kernel's results afterwards."""
    capture = importlib.import_module("gpusim.capturing").capture
    simulate = importlib.import_module("gpusim.engine.gpu").simulate

    def run(kernel: Any, grid: Any, block: Any, args: tuple, shared_bytes: int = 0) -> Any:
        return simulate(capture(kernel, grid, block, args, gpu=gpusim_gpu, shared_bytes=shared_bytes), gpusim_gpu)

    return run
