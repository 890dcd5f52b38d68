"""Runs a test's kernel by capture on several architectures, or on a real device with a switch.

Every test that takes ``launch`` runs on one architecture of the five generations each time, a
different one from test to test (its name decides), and on the four others with ``-m nightly``. What was
captured for a GPU that is described here is then simulated as well.

``GPUSIM_TEST_ON=cuda`` launches the kernels through Numba itself: on a GPU, or in Numba's own
simulator with ``NUMBA_ENABLE_CUDASIM=1``. That shows whether a failing test or the emulator is wrong.
"""

from __future__ import annotations

import os
import zlib

import pytest

from gpusim.engine.gpu import simulate
from gpusim.isa.architectures import GENERATIONS

ON_DEVICE = os.environ.get("GPUSIM_TEST_ON", "capture") == "cuda"
#: Far above what any test here executes: a livelock ends in seconds.
INSTRUCTION_LIMIT = 5_000_000
#: Architectures with a described GPU: there, what was captured is simulated too.
SIMULATED_ON = {"sm_80": "a100_80gb", "sm_90": "h200"}
ARCHITECTURES = tuple(row.name for row in GENERATIONS)


def pytest_generate_tests(metafunc):
    if "launch" not in metafunc.fixturenames:
        return
    if ON_DEVICE:
        metafunc.parametrize("launch", ["device"], indirect=True)
        return
    everyday = ARCHITECTURES[zlib.crc32(metafunc.function.__name__.encode()) % len(ARCHITECTURES)]
    metafunc.parametrize(
        "launch",
        [sm if sm == everyday else pytest.param(sm, marks=pytest.mark.nightly) for sm in ARCHITECTURES],
        indirect=True,
    )


@pytest.fixture
def launch(request):
    """``launch(kernel, grid, block, *args, shared_bytes=0)`` runs it, writing arrays in place."""
    if ON_DEVICE:

        def on_device(kernel, grid, block, *args, shared_bytes=0):
            kernel[grid, block, 0, shared_bytes](*args)

        return on_device

    request.getfixturevalue("without_source_lines")  # not there with Numba's simulator
    capture = pytest.importorskip("gpusim.capturing").capture

    def by_capture(kernel, grid, block, *args, shared_bytes=0):
        trace = capture(
            kernel,
            grid,
            block,
            args,
            gpu=request.param,
            shared_bytes=shared_bytes,
            instruction_limit=INSTRUCTION_LIMIT,
        )
        if request.param in SIMULATED_ON:
            check_simulation(trace, SIMULATED_ON[request.param])
        return trace

    return by_capture


def check_simulation(trace, gpu):
    """The engine brings whatever was captured to its end, and accounts for every warp-cycle of it."""
    result = simulate(trace, gpu)
    polls = any(len(chunk.polls) for chunk in trace.chunks())  # how often is the machine's to say, not the trace's
    issued = result.stalls["selected"]
    assert issued >= trace.warp_instructions if polls else issued == trace.warp_instructions
    assert sum(result.stalls.values()) == result.counters["sm__warps_active.sum"]
    assert result.counters["sm__ctas_launched.sum"] == trace.launch.blocks
