"""Do sub-cores share a pipe of their SM fairly?"""

from __future__ import annotations

import gpusim
from gpusim.gpus.cut_down import cut_down
from gpusim.gpus.load import load_gpu
from gpusim.report.answer import answer
from workloads.external.grid_families import filters


def test_blocks_whose_warps_want_one_fp64_pipe_stay_apart() -> None:
    """Each block has a warp a sub-core, which loads and then takes the SM's FP64 pipe four times. Were one sub-core
    always first, all blocks would end together, behind the last one's warps, and the pipe would stand still while the
    next ones load: it was busy 65 % of the time, an RTX 3060's is nearly always."""
    spec = cut_down(load_gpu("rtx3070"), 2)
    made = filters({"kernel": "row_tiled", "size": 1 << 16, "mask": 5, "block": 128, "channels": 1}, None)
    trace = gpusim.capture(
        made.kernel, (160,), made.block, made.arguments(None), gpu=spec, shared_bytes=made.shared_bytes, sample=True
    )
    found = answer(gpusim.simulate(trace, gpu=spec))
    assert found.roof == "FP64 pipe" and found.roof_percent > 80
