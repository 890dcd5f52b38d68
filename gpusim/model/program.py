"""A kernel's program as the issue stage sees it: one row of small integers an instruction.

Mental model: the trace says which pipe class an instruction needs and what the compiler asked for; the
GPU says what a class costs. :func:`program_table` joins the two once a launch, so that issuing an
instruction is reading one row. The columns are declared below.
"""

from __future__ import annotations

import math

import numpy as np

from gpusim.errors import SpecError, UnsupportedOpcodeError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.register_file import write_ticks
from gpusim.model.scoreboard import COUNTERS
from gpusim.model.stall_reasons import IMC_MISS, LONG_SCOREBOARD, SHORT_SCOREBOARD
from gpusim.model.tensor import instruction_timing, write_back_cycles
from gpusim.state_tables import Table
from gpusim.trace.layout import TENSOR_KINDS
from gpusim.trace.record import NO_BARRIER, WARP_LANES, Flag, MemoryKind, PipeClass, Program, Space

PROGRAM_TABLE = Table(
    __name__, "program", "an instruction of the program", "What it needs, costs and asks for.", whole_lines=True
)
# What plain arithmetic needs comes first, in a cache line of the host; then, in two more, what other issues and the LSU
# need.
PLAIN = PROGRAM_TABLE.column("flag", "nothing but arithmetic of a fixed latency")
STEP = PROGRAM_TABLE.column(
    "mask",
    "SHORT_STEP: what its warp waited for before is past, whatever it was; with ASKS_CODE, ASKS_NEXT; 0: it may not be",
)
PORT = PROGRAM_TABLE.column("index", "the port of the sub-core that it needs; QUEUE_PORT for the LSU")
INTERVAL = PROGRAM_TABLE.column("cycles", "for which it keeps that port")
TAKES = PROGRAM_TABLE.column(
    "packed",
    "ENTRANCE * cycles for which no arithmetic of the sub-core issues + of an FMA pipe of two halves: EITHER_HALF takes it, the "
    "HEAVY_HALF alone, or BOTH_HALVES; 0: its port alone",
)
STALL = PROGRAM_TABLE.column("cycles", "until the warp may issue again")
YIELD = PROGRAM_TABLE.column("flag", "another warp goes first")
WRITE_TICKS = PROGRAM_TABLE.column("ticks", "of write-back that its own writes take from products")
FLAGS = PROGRAM_TABLE.column("mask", "of gpusim.trace.record.Flag")
WRITE_BARRIER = PROGRAM_TABLE.column("index", "counter that falls with its result, or NO_BARRIER")
READ_BARRIER = PROGRAM_TABLE.column("index", "counter that falls when its sources are read, or NO_BARRIER")
WAIT_MASK = PROGRAM_TABLE.column("mask", "counters that must be zero")
RECORDS = PROGRAM_TABLE.column("count", "access records that it uses")
FETCH = PROGRAM_TABLE.column(
    "packed", "2 * (1 + line of code to ask for when it issues) + whether it is its line's last instruction"
)
CONSTANT_LINE = PROGRAM_TABLE.column("index", "1 + line of constant memory that it reads as an operand; 0: none")
KIND = PROGRAM_TABLE.column("code", "of gpusim.trace.record.MemoryKind")
LATENCY = PROGRAM_TABLE.column("cycles", "from issue to result, where the LSU does not say")
REASON = PROGRAM_TABLE.column("code", "the stall reason of a warp that waits for its result")
SHARED_BY_SM = PROGRAM_TABLE.column("flag", "the port is one of the SM, not of the sub-core")
TICKS = PROGRAM_TABLE.column(
    "ticks", "interval of a tensor-core instruction, whose rate is no whole number of cycles; else 0"
)
BULK = PROGRAM_TABLE.column("code", "MOVES, CLOSES, MULTIPLIES, COMMITS; else 0")
SLEEP = PROGRAM_TABLE.column(
    "cycles", "for which its warp sleeps; below 0: - those of 2 ** SLEEP_SHIFT ns, and its access says how many ns"
)
SPACE = PROGRAM_TABLE.column("code", "of gpusim.trace.record.Space")
BYTES = PROGRAM_TABLE.column("bytes", "a lane")
IS_SHUFFLE = PROGRAM_TABLE.column("flag", "it is a shuffle")
COLLECT_CYCLES = PROGRAM_TABLE.column(
    "cycles", "that its sub-core takes to collect its registers for the LSU; 0: the description does not say"
)
DEPBAR_INDEX = PROGRAM_TABLE.column("index", "counter of a DEPBAR")
DEPBAR_LEVEL = PROGRAM_TABLE.column("count", "that it may still be at")
BARRIER_ID = PROGRAM_TABLE.column("index", "number of its named barrier")
LINE = PROGRAM_TABLE.column("index", "its line of code")
LINE_LEFT = PROGRAM_TABLE.column("count", "instructions to the next line's first one")
BARRIER_WARPS = PROGRAM_TABLE.column("count", "warps that meet at its barrier; 0: all of the block")
LOADED_LINE = PROGRAM_TABLE.column(
    "index", "1 + line of constant memory that it loads from (an indexed load: its bank's first); 0: none"
)
SPARE_TICKS = PROGRAM_TABLE.column(
    "ticks", "of a product (wgmma): it multiplies so much longer than it writes accumulators back"
)
CLOCK = PROGRAM_TABLE.column("packed", "what its flags CLOCK and CLOCK_WAIT say of the clock; see the trace's Flag")
CLOCK_TICKS = PROGRAM_TABLE.column("cycles", "of 2 ** SLEEP_SHIFT ticks of the clock for which its loop waits")
#: What the tensor memory accelerator does: it moves boxes, it closes a group of such. What the tensor core that works
#: on tensor memory does: it multiplies or copies, it tells an mbarrier when that is done.
MOVES, CLOSES, MULTIPLIES, COMMITS = 1, 2, 3, 4

#: Bits of STEP. Beside the stall count its warp waits for code that it asks for, for what the next instruction waits
#: for: counters, a constant, groups.
SHORT_STEP, ASKS_CODE, ASKS_NEXT = 1, 2, 4
SLEEP_SHIFT = 20
QUEUE_PORT = len(PipeClass)
PORTS = QUEUE_PORT + 1

#: Classes that share one unit: integer multiply-add runs on the FMA pipe, conversions on the
#: transcendental unit; those of 64-bit types on the FP64 unit where that is one an SM.
_PORT_OF = {
    PipeClass.IMAD: PipeClass.FMA,
    PipeClass.IMAD_WIDE: PipeClass.FMA,
    PipeClass.CONVERT: PipeClass.MUFU,
    PipeClass.CONVERT_WIDE: PipeClass.MUFU,
    PipeClass.BFLOAT: PipeClass.HALF,
    PipeClass.HALF_SINGLE: PipeClass.HALF,
    PipeClass.FMA_PAIRS: PipeClass.FMA,
    PipeClass.VIADD: PipeClass.FMA,
}
#: An FMA pipe that issues FP32 twice as often as integer multiply-adds is two halves of 16 lanes, of which one, the
#: heavy one, also has integers and halves that become FP32, and which pairs take together, packed halves as FP32 ones
#: (Nsight Compute's pipelines fma, fmaheavy and fmalite, "FMALite performs FP32 arithmetic and FP16 arithmetic", from
#: GA10x on; cicuvc/nvidia-sass-document counts a packed operation on both of a GB202, and on H100 and B200 FP32 and
#: packed halves in turn take 2 cycles each). The FMA port is then free when either half is, that of packed halves when
#: both are; each half has a port that no instruction asks for otherwise.
EITHER_HALF, HEAVY_HALF, BOTH_HALVES = 1, 2, 3
ENTRANCE = 4
FMA_PORT, HEAVY_PORT, LITE_PORT = int(PipeClass.FMA), int(PipeClass.IMAD), int(PipeClass.IMAD_WIDE)
BOTH_PORT = int(PipeClass.HALF)
#: Ports of arithmetic, which passes one entrance of its sub-core.
ARITHMETIC_PORTS = tuple(
    int(each)
    for each in (
        PipeClass.ALU, PipeClass.ALU_LITE, PipeClass.FMA, PipeClass.HALF, PipeClass.HALF_MMA, PipeClass.FP64,
    )
)  # fmt: skip
_HEAVY = (PipeClass.IMAD, PipeClass.IMAD_WIDE, PipeClass.VIADD, PipeClass.HALF_SINGLE)
_BOTH = (PipeClass.HALF, PipeClass.BFLOAT, PipeClass.FMA_PAIRS)
#: Classes that a GPU may have a unit of their own for -> the class whose unit they take where it has none.
_ONE_UNIT_WITH = {
    PipeClass.ALU_LITE: PipeClass.ALU, PipeClass.HALF_MMA: PipeClass.HALF, PipeClass.VIADD: PipeClass.ALU_LITE,
}  # fmt: skip
#: Flags of instructions that wait for something else than counters.
_WAITING = int(Flag.DEPBAR | Flag.PRODUCT | Flag.PRODUCT_WAIT | Flag.GRID_WAIT)
_QUEUED = (PipeClass.LSU, PipeClass.SHUFFLE)
_L1TEX_SPACES = (Space.GLOBAL, Space.LOCAL, Space.GENERIC)

#: What the trace says in the words of the table.
_AS_IT_IS = {
    YIELD: "yield_hint", WAIT_MASK: "wait_mask", FLAGS: "flags", KIND: "memory_kind", SPACE: "space", BYTES: "access_bytes",
    RECORDS: "records", DEPBAR_INDEX: "depbar_index", DEPBAR_LEVEL: "depbar_level",
}  # fmt: skip

#: Most registers that an instruction's operands are.
OPERANDS = 3

#: Of a constant bank, CUDA C++ Programming Guide.
CONSTANT_BANK_BYTES = 1 << 16

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


def program_table(program: Program, spec: GpuSpec, first_line: int = 0) -> np.ndarray:
    """int64[instructions, COLUMNS], with the program's lines of code numbered from ``first_line``; raises SpecError for
    a pipe class that the GPU does not describe."""
    code = program.instructions
    bulk = np.flatnonzero(code["pipe"] == PipeClass.TMA)
    if len(bulk) and not spec.tma.queue_entries:
        raise UnsupportedOpcodeError(
            f"{program.texts[bulk[0]]}: {spec.name} has no tensor memory accelerator (tma.queue_entries is 0)"
        )
    tensor = np.flatnonzero(code["pipe"] == PipeClass.TENSOR_MEMORY)
    if len(tensor) and not spec.tensor_memory.columns_per_cycle:
        raise UnsupportedOpcodeError(
            f"{program.texts[tensor[0]]}: {spec.name} has no tensor memory (tensor_memory.columns_per_cycle is 0)"
        )
    table = PROGRAM_TABLE.zeros(len(code))
    for number in np.unique(code["pipe"]):
        _units(table, code, PipeClass(int(number)), spec)
    _own_latencies(table, code, spec)
    hint = (code["yield_hint"] != 0).astype(np.int64)
    stalls, where = np.unique(2 * code["stall_cycles"].astype(np.int64) + hint, return_inverse=True)
    table[:, STALL] = np.array([effective_stall(int(each) >> 1, int(each) & 1) for each in stalls], np.int64)[where]
    for column, field in _AS_IT_IS.items():
        table[:, column] = code[field]
    table[:, WRITE_BARRIER] = np.minimum(code["write_barrier"], NO_BARRIER)
    table[:, READ_BARRIER] = np.minimum(code["read_barrier"], NO_BARRIER)
    table[:, BARRIER_ID] = np.minimum(code["barrier_id"], 15)
    table[:, BARRIER_WARPS] = -(-code["barrier_threads"].astype(np.int64) // WARP_LANES)
    for i in np.flatnonzero(code["flags"] & int(Flag.SLEEP)):
        # PTX ISA, "nanosleep": "the sleep duration is approximated, but guaranteed to be in the interval [0, 2*t]": t.
        known = not code["records"][i]
        table[i, SLEEP] = round(spec.cycles(int(code["constant_offset"][i]) if known else -(1 << SLEEP_SHIFT)))
    clocked = (code["flags"] & int(Flag.CLOCK | Flag.CLOCK_WAIT)) != 0
    table[clocked, CLOCK] = code["constant_offset"][clocked]
    in_ns = clocked & (code["constant_offset"] & 1 != 0)
    table[:, CLOCK_TICKS] = np.where(in_ns, round(spec.cycles(1 << SLEEP_SHIFT)), 1 << SLEEP_SHIFT)
    in_l1tex = np.isin(code["space"], _L1TEX_SPACES) & (code["memory_kind"] != MemoryKind.NONE)
    table[code["memory_kind"] >= MemoryKind.BULK_LOAD, BULK] = MOVES
    table[np.isin(code["memory_kind"], TENSOR_KINDS), BULK] = MULTIPLIES
    table[(code["flags"] & int(Flag.BULK_GROUP)) != 0, BULK] = CLOSES
    table[(code["flags"] & int(Flag.COMMIT)) != 0, BULK] = COMMITS
    table[:, WRITE_TICKS] = write_ticks(code, spec.register_file)
    if spec.l1.operand_interval_cycles:
        words = np.where(code["sources"] >= 0, code["source_words"], 0).sum(axis=1, dtype=np.int64)
        table[:, COLLECT_CYCLES] = np.maximum(1, words * spec.l1.operand_interval_cycles)
    table[:, REASON] = SHORT_SCOREBOARD
    table[(code["pipe"] == PipeClass.LSU) & in_l1tex, REASON] = LONG_SCOREBOARD
    table[code["pipe"] == PipeClass.CONSTANT, REASON] = IMC_MISS
    _lines_of_constants(table, code, spec)
    _lines_of_code(table, code, spec, first_line)
    table[:, PLAIN], table[:, STEP] = _is_plain(table), _steps(table)
    return table


def _units(table: np.ndarray, code: np.ndarray, pipe_class: PipeClass, spec: GpuSpec) -> None:
    """What their pipe says of the instructions of ``pipe_class``. Raises SpecError."""
    rows = code["pipe"] == pipe_class
    name = pipe_class.name.lower()
    if name not in spec.pipes:
        raise SpecError(f"{spec.name}: no pipe {name!r}; the program needs it")
    pipe = spec.pipes[name]
    while pipe_class in _ONE_UNIT_WITH and not spec.pipes[pipe_class.name.lower()].own_unit:
        pipe_class = _ONE_UNIT_WITH[pipe_class]
    port = QUEUE_PORT if pipe_class in _QUEUED else _PORT_OF.get(pipe_class, pipe_class)
    if pipe_class == PipeClass.CONVERT_WIDE and pipe.shared_by_sm:
        port = PipeClass.FP64
    if pipe_class == PipeClass.HALF_MMA and not spec.pipes["fp64"].shared_by_sm:
        port = PipeClass.FP64
    halves = 2 * spec.pipes["fma"].interval_cycles == spec.pipes["imad"].interval_cycles
    slower = pipe.interval_cycles > spec.pipes["fma"].interval_cycles
    if halves and pipe_class == PipeClass.FMA:
        table[rows, TAKES] = EITHER_HALF
    elif halves and slower and pipe_class in _HEAVY:
        port = HEAVY_PORT
        table[rows, TAKES] = HEAVY_HALF
    elif halves and slower and pipe_class in _BOTH:
        port = BOTH_PORT
        table[rows, TAKES] = BOTH_HALVES
    table[rows, TAKES] += ENTRANCE * pipe.entrance_cycles
    table[rows, PORT] = port
    registers = (code["sources"][rows] >= 0).sum(axis=1)
    table[rows, INTERVAL] = pipe.interval_cycles + pipe.fewer_registers_cycles * (registers < OPERANDS)
    table[rows, LATENCY] = pipe.latency_cycles
    table[rows, SHARED_BY_SM] = pipe.shared_by_sm
    table[rows, IS_SHUFFLE] = pipe_class == PipeClass.SHUFFLE


def _own_latencies(table: np.ndarray, code: np.ndarray, spec: GpuSpec) -> None:
    """Of those whose pipe has several latencies: loads of constants, products of matrices. Raises SpecError."""
    constant = code["pipe"] == PipeClass.CONSTANT
    table[constant & (code["constant_bytes"] > 0), LATENCY] = spec.constant_cache.immediate_latency_cycles
    table[constant & ~(code["constant_bytes"] > 0), LATENCY] = spec.l1.constant_latency_cycles
    tensor = np.flatnonzero(code["pipe"] == PipeClass.TENSOR)
    told_apart = code[["matrix_type", "matrix_macs", "flags", "space", "access_bytes"]][tensor]
    _, first, which = np.unique(told_apart, return_index=True, return_inverse=True)
    for number, i in enumerate(first):
        interval, latency = instruction_timing(code[tensor[i]], spec)
        rows = tensor[which == number]
        table[rows, LATENCY], table[rows, INTERVAL] = latency, math.ceil(interval)
        table[rows, TICKS] = round(interval * TICKS_PER_CYCLE)
        if code["flags"][tensor[i]] & int(Flag.PRODUCT):
            written = write_back_cycles(int(code["matrix_type"][tensor[i]]), int(code["matrix_macs"][tensor[i]]))
            table[rows, SPARE_TICKS] = max(0, round((interval - written) * TICKS_PER_CYCLE))


def _is_plain(table: np.ndarray) -> np.ndarray:
    """Which instructions take nothing but their port and their operands' ports, bool[instructions]."""
    special = np.isin(table[:, PORT], (QUEUE_PORT, PipeClass.CONSTANT, PipeClass.BARRIER))
    for column in (FLAGS, RECORDS, SHARED_BY_SM, TICKS, SLEEP, BULK):
        special |= table[:, column] != 0
    for column in (WRITE_BARRIER, READ_BARRIER):
        special |= table[:, column] != NO_BARRIER
    return ~special


def _steps(table: np.ndarray) -> np.ndarray:
    """STEP of each instruction, int64[instructions]."""
    stops = (table[:, PORT] == PipeClass.BARRIER) | (table[:, FLAGS] != 0) | (table[:, SLEEP] != 0)
    waits = (table[:, FLAGS] & _WAITING) != 0
    for column in (WAIT_MASK, CONSTANT_LINE):
        waits |= table[:, column] != 0
    steps = SHORT_STEP + ASKS_CODE * (table[:, FETCH] != 0) + ASKS_NEXT * np.append(waits[1:], True)
    return np.where(stops, 0, steps)


def counts_down(table: np.ndarray) -> bool:
    """Whether an instruction of a :func:`program_table` waits for a counter to be at most some number above zero."""
    depbar = (table[:, FLAGS] & int(Flag.DEPBAR)) != 0
    return bool((depbar & (table[:, DEPBAR_INDEX] < COUNTERS) & (table[:, DEPBAR_LEVEL] > 0)).any())


def _lines_of_constants(table: np.ndarray, code: np.ndarray, spec: GpuSpec) -> None:
    """Number the lines of constant memory that the program names, bank after bank."""
    line = code["constant_offset"].astype(np.int64) // spec.constant_cache.line_bytes
    line += code["constant_bank"].astype(np.int64) * (CONSTANT_BANK_BYTES // spec.constant_cache.line_bytes)
    loads = code["pipe"] == PipeClass.CONSTANT
    named = np.where((code["constant_bytes"] > 0) | (loads & (code["records"] > 0)), line + 1, 0)
    table[:, CONSTANT_LINE] = np.where(loads, 0, named)
    table[:, LOADED_LINE] = np.where(loads, named, 0)


def _lines_of_code(table: np.ndarray, code: np.ndarray, spec: GpuSpec, first_line: int) -> None:
    """Say where lines begin and end, and which instruction's issue asks for which line.

    A line is asked for ``buffer_entries`` instructions ahead of its first one, but not before the line that
    precedes it in the program begins.
    """
    n = len(code)
    ahead = spec.instruction_cache.buffer_entries
    line = first_line + code["address"].astype(np.int64) // spec.instruction_cache.line_bytes
    firsts = (1 + np.flatnonzero(np.diff(line))).tolist()
    table[:, LINE] = line
    start = 0
    for first in [*firsts, n]:
        table[start:first, LINE_LEFT] = first - np.arange(start, first)
        if first < n:
            table[max(start, first - ahead), FETCH] = 2 * (1 + line[first])
            table[first - 1, FETCH] |= 1
        start = first
