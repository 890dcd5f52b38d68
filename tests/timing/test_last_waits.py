"""A wait that is the last thing a warp does, so that it ends in a conditional EXIT and no branch: as long as what is
waited for."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim.engine.gpu import simulate

#: Warp 0 computes ``work`` steps and tells the second warp, which waits and ends.
SOURCE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry waits(.param .u64 out, .param .u32 work)
{{
    .shared .align 8 .b64 place;
    .reg .b32 thread, at, steps, i, y, seen;
    .reg .pred p, done;
    .reg .b64 to;
    ld.param.u64 to, [out]; ld.param.u32 steps, [work];
    mov.u32 thread, %tid.x; mov.u32 at, place; mov.u32 i, 0; mov.u32 y, thread;
    setp.ne.u32 p, thread, 0;
    @p bra BEGUN;
    {begin}
BEGUN:
    bar.sync 0;
    setp.lt.u32 p, thread, 32;
    @p bra WORK;
LOOK:
    {look}
    @!done bra LOOK;
    ret;
WORK:
    mad.lo.u32 y, y, y, i; add.u32 i, i, 1; setp.lt.u32 p, i, steps;
    @p bra WORK;
    st.global.u32 [to], y;
    {tell}
    ret;
}}
"""
WAITS = {
    "mbarrier": (
        "mbarrier.init.shared.b64 [at], 32;",
        "mbarrier.try_wait.parity.shared.b64 done, [at], 0;",
        "mbarrier.arrive.shared.b64 _, [at];",
    ),
    "flag": (
        "st.shared.u32 [at], 0;",
        "ld.volatile.shared.u32 seen, [at]; setp.ne.u32 done, seen, 0;",
        "setp.eq.u32 p, thread, 0; @p st.volatile.shared.u32 [at], 1;",
    ),
}


@pytest.mark.parametrize(("wait", "gpu"), [("mbarrier", "h200"), ("mbarrier", "b200"), ("flag", "h200")])
def test_who_ends_once_others_have_worked_waits_as_long_as_they_work(wait: str, gpu: str) -> None:
    kernel = gpusim.ptx(SOURCE.format(**dict(zip(("begin", "look", "tell"), WAITS[wait], strict=True))), "waits")
    cycles, instructions = {}, {}
    for block in (32, 64):
        for work in (1000, 3000):
            trace = gpusim.capture(kernel, 1, block, (np.zeros(1, np.uint32), np.uint32(work)), gpu=gpu)
            assert sum(len(chunk.polls) for chunk in trace.chunks()) == (block == 64)
            instructions[block, work] = trace.warp_instructions
            cycles[block, work] = simulate(trace, gpu).cycles
    # The rounds that the emulator went are not in the trace: they would make the waiter the longer one.
    more, most = (instructions[block, 3000] - instructions[block, 1000] for block in (32, 64))
    assert most == pytest.approx(more, abs=5)  # whether the first look is one of the loop's or in front of it
    alone, waited = (cycles[block, 3000] - cycles[block, 1000] for block in (32, 64))
    assert waited == pytest.approx(alone, rel=0.05)
