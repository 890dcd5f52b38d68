"""Runs a test's kernel by capture on several architectures, or on a real device with a switch.

``GPUSIM_TEST_ON=cuda`` launches the kernels through Numba itself: on a GPU, or in Numba's own
simulator with ``NUMBA_ENABLE_CUDASIM=1``. That shows whether a failing test or the emulator is wrong.
"""

from __future__ import annotations

import os

import pytest

ON_DEVICE = os.environ.get("GPUSIM_TEST_ON", "capture") == "cuda"
EVERYDAY = ("sm_90", "sm_120")
NIGHTLY = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_100")


def _architectures():
    if ON_DEVICE:
        return ["device"]
    return [*EVERYDAY, *(pytest.param(sm, marks=pytest.mark.nightly) for sm in NIGHTLY)]


@pytest.fixture(params=_architectures())
def launch(request):
    """``launch(kernel, grid, block, *args, shared_bytes=0)`` runs it, writing arrays in place."""
    if ON_DEVICE:
        def on_device(kernel, grid, block, *args, shared_bytes=0):
            kernel[grid, block, 0, shared_bytes](*args)

        return on_device

    from gpusim.capture.launch import capture

    def by_capture(kernel, grid, block, *args, shared_bytes=0):
        return capture(kernel, grid, block, args, gpu=request.param, shared_bytes=shared_bytes)

    return by_capture
