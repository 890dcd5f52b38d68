"""Where a run stands under the roofs: arithmetic done, bytes moved at each level, and the machine's peaks.

Mental model: a kernel's point lies at (operations per byte, operations per second); it cannot be above the
slope of the level's bandwidth nor above the roof of its arithmetic. Operations are counted from the
machine code: lanes active times what the opcode's declaration says (:mod:`gpusim.isa.opcode`), on the uniform datapath
once a warp. So a lane that a guard predicate switches off counts too (Nsight's ``_pred_on`` counters would leave it
out).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusim.engine.result import LaunchResult
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.table import opcode_of_text
from gpusim.model import counters as count
from gpusim.model import program as op
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import PipeClass

_PIPE_OF = {"FP32": ("fma", 2), "FP64": ("fp64", 2), "FP16": ("half", 4)}  # pipe, operations a lane at best


#: How compilers put a number into a register where the FP16 pipe is free: ``HFMA2.MMA R3, -RZ, RZ, 0, 1.875``, zero
#: times zero and the number.
_NUMBER = re.compile(r"HFMA2\S* R\d+, -?RZ, -?RZ,")


def operations(launches: Sequence[LaunchResult], *, executed: bool = True) -> dict[str, int]:
    """Operations by kind of arithmetic, summed over the launches; tensor-core multiply-adds count two. An instruction
    of a trace made by hand, which no opcode of the table names, counts nothing. ``executed``: all that pipes did; else
    what a kernel's author would count, without instructions that only put a number into a register."""
    total: dict[str, int] = {}
    for launch in launches:
        code = launch.program.instructions
        lanes = launch.work_by_instruction[:, count.THREAD_INSTRUCTIONS]
        issues = launch.stalls_by_instruction[:, SELECTED]
        macs = issues * code["matrix_macs"].astype(np.int64)
        for index, text in enumerate(launch.program.texts):
            opcode, _ = opcode_of_text(text)
            if opcode is None or not opcode.flops.each or not issues[index]:
                continue
            if not executed and _NUMBER.search(text):
                continue
            times = macs if opcode.flops.kind == "tensor" else issues if opcode.uniform else lanes
            total[opcode.flops.kind] = total.get(opcode.flops.kind, 0) + opcode.flops.each * int(times[index])
    return total


def roofline(launches: Sequence[LaunchResult], spec: GpuSpec, moved: dict[str, float]) -> dict[str, Any]:
    """Roofs and points. ``moved``: bytes by level as :func:`gpusim.engine.utilisation.traffic` gives them.

    ``roofs`` and ``slopes``: name -> G operations / s and GB/s of the machine at its clock; ``points``: level,
    operations per byte there, G operations / s; empty without floating-point work.
    """
    done = operations(launches, executed=False)
    ghz = spec.clock_hz / 1e9
    roofs = {}
    for kind in done:
        if kind == "tensor":
            roofs[kind] = _tensor_peak(launches, spec) * ghz
            continue
        pipe, each = _PIPE_OF[kind]
        units = spec.sm_count * (1 if spec.pipes[pipe].shared_by_sm else spec.sm.sub_cores)
        roofs[kind] = each * 32 / spec.pipes[pipe].interval_cycles * units * ghz
        if pipe == "half" and spec.pipes["half_mma"].own_unit:  # a second unit, of which compilers use both in turn
            roofs[kind] += each * 32 / spec.pipes["half_mma"].interval_cycles * units * ghz
    slopes = {
        "L1": spec.sm_count * spec.l1.bank_count * spec.l1.bank_bytes * ghz,
        "L2": spec.l2.slices * spec.l2.slice_bytes_per_ns,
        "DRAM": spec.dram.peak_bytes_per_ns,
    }
    seconds_e9 = sum(launch.cycles for launch in launches) / ghz
    levels = {"L1": "l1tex__t_bytes.sum", "L2": "lts__t_bytes.sum", "DRAM": "dram__bytes.sum"}
    all_done = sum(done.values())
    points = [
        {"level": level, "operations_per_byte": all_done / moved[name], "g_operations_per_s": all_done / seconds_e9}
        for level, name in levels.items()
        if all_done and moved[name]
    ]
    return {"operations": done, "roofs": roofs, "slopes": slopes, "points": points}


def _tensor_peak(launches: Sequence[LaunchResult], spec: GpuSpec) -> float:
    """Operations a clock of all tensor cores, for the mix of products that ran."""
    macs = busy = 0
    for launch in launches:
        table = op.program_table(launch.program, spec)
        own = (table[:, op.PORT] == PipeClass.TENSOR) * launch.stalls_by_instruction[:, SELECTED]
        macs += int((own * launch.program.instructions["matrix_macs"].astype(np.int64)).sum())
        busy += int((own * table[:, op.INTERVAL]).sum())
    units = spec.sm_count * (1 if spec.pipes["tensor"].shared_by_sm else spec.sm.sub_cores)
    return 2.0 * macs / busy * units
