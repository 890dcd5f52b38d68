"""A kernel's program as the issue stage sees it: one row of small integers an instruction.

Mental model: the trace says which pipe class an instruction needs and what the compiler asked for; the
GPU says what a class costs. :func:`program_table` joins the two once a launch, so that issuing an
instruction is reading one row. Columns are named below; cycles are SM cycles.
"""

from __future__ import annotations

import numpy as np

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.stall_reasons import IMC_MISS, LONG_SCOREBOARD, SHORT_SCOREBOARD
from gpusim.model.tensor import tensor_timing
from gpusim.trace.record import NO_BARRIER, MemoryKind, PipeClass, Program, Space

(
    PORT,  # which port of the sub-core it needs; QUEUE_PORT for the memory path
    INTERVAL,  # cycles it keeps that port
    LATENCY,  # cycles from issue to result, where the memory path does not say
    STALL,  # cycles until the warp may issue again
    YIELD,
    WRITE_BARRIER,
    READ_BARRIER,
    WAIT_MASK,
    FLAGS,
    KIND,
    SPACE,
    BYTES,
    RECORDS,
    DEPBAR_INDEX,
    DEPBAR_LEVEL,
    BARRIER_ID,
    REASON,  # what a warp that waits for its result is charged with
    SHARED_BY_SM,  # the port is one of the SM, not of the sub-core
    IS_SHUFFLE,
    COLUMNS,
) = range(20)

QUEUE_PORT = len(PipeClass)
PORTS = QUEUE_PORT + 1

#: Classes that share one unit: integer multiply-add runs on the FMA pipe, conversions on the
#: transcendental unit.
_PORT_OF = {
    PipeClass.IMAD: PipeClass.FMA,
    PipeClass.IMAD_WIDE: PipeClass.FMA,
    PipeClass.CONVERT: PipeClass.MUFU,
}
_QUEUED = (PipeClass.LSU, PipeClass.SHUFFLE)
_L1TEX_SPACES = (Space.GLOBAL, Space.LOCAL, Space.GENERIC)

#: A stall count above this is only honoured together with the yield bit (microbenchmarks.md, section 2:
#: Huerta et al., MICRO 2025); without it the warp is ready again after SHORT_STALL cycles.
LONGEST_PLAIN_STALL = 11
SHORT_STALL = 2
#: Stall count zero with the yield bit: the warp stands aside for this long (45 cycles, same source).
STAND_ASIDE_CYCLES = 45


def effective_stall(stall_cycles: int, yield_hint: int) -> int:
    """Cycles from an issue until its warp may issue again, as the scheduler reads the control field."""
    if stall_cycles == 0:
        return STAND_ASIDE_CYCLES if yield_hint else 1
    if stall_cycles > LONGEST_PLAIN_STALL and not yield_hint:
        return SHORT_STALL
    return stall_cycles


def program_table(program: Program, spec: GpuSpec) -> np.ndarray:
    """int64[instructions, COLUMNS]; raises SpecError for a pipe class that the GPU does not describe."""
    code = program.instructions
    table = np.zeros((len(code), COLUMNS), np.int64)
    pipes = {}
    for number in np.unique(code["pipe"]):
        name = PipeClass(int(number)).name.lower()
        if name not in spec.pipes:
            raise SpecError(f"{spec.name}: no pipe {name!r}; the program needs it")
        pipes[int(number)] = spec.pipes[name]
    for i, row in enumerate(code):
        out = table[i]
        pipe_class = PipeClass(int(row["pipe"]))
        pipe = pipes[int(row["pipe"])]
        space = Space(int(row["space"]))
        out[PORT] = QUEUE_PORT if pipe_class in _QUEUED else _PORT_OF.get(pipe_class, pipe_class)
        out[INTERVAL] = pipe.interval_cycles
        out[LATENCY] = spec.l1.constant_latency_cycles if pipe_class == PipeClass.CONSTANT else pipe.latency_cycles
        if pipe_class == PipeClass.TENSOR:
            out[INTERVAL], out[LATENCY] = tensor_timing(row["matrix_type"], int(row["matrix_macs"]), spec)
        out[STALL] = effective_stall(int(row["stall_cycles"]), int(row["yield_hint"]))
        out[YIELD] = row["yield_hint"]
        out[WRITE_BARRIER] = min(int(row["write_barrier"]), NO_BARRIER)
        out[READ_BARRIER] = min(int(row["read_barrier"]), NO_BARRIER)
        out[WAIT_MASK] = row["wait_mask"]
        out[FLAGS] = row["flags"]
        out[KIND] = row["memory_kind"]
        out[SPACE] = row["space"]
        out[BYTES] = row["access_bytes"]
        out[RECORDS] = row["records"]
        out[DEPBAR_INDEX] = row["depbar_index"]
        out[DEPBAR_LEVEL] = row["depbar_level"]
        out[BARRIER_ID] = min(int(row["barrier_id"]), 15)
        out[SHARED_BY_SM] = pipe.shared_by_sm
        out[IS_SHUFFLE] = pipe_class == PipeClass.SHUFFLE
        if pipe_class == PipeClass.LSU and space in _L1TEX_SPACES and row["memory_kind"] != MemoryKind.NONE:
            out[REASON] = LONG_SCOREBOARD
        elif pipe_class == PipeClass.CONSTANT:
            out[REASON] = IMC_MISS
        else:
            out[REASON] = SHORT_SCOREBOARD
    return table
