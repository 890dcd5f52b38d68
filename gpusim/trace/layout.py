"""The dtypes and value classes of a trace: the kernel's SASS once, every warp's path and addresses.

Mental model: a trace is a recording of *which* instructions each warp issued and *which*
addresses its memory instructions touched, and nothing about *when*: time is the engine's
business, coalescing and caching the model's. It is the sole contract between capture and
simulation (neither imports the other).

Shapes. A launch has ``grid`` x ``block`` threads; a block has ``warps_per_block`` warps; blocks
are numbered linearly (x fastest). Blocks come in :class:`Chunk` s of consecutive blocks, each
self-contained, so that a grid of any size can be streamed in bounded memory. A warp's path is a
sequence of runs (``RUN``): ``count`` instructions from index ``first`` on, fetched with the
active-lane ``mask``. Equal paths of a chunk are stored once. A block whose recording is too long
for one chunk goes on in the next one (``Chunk.open_blocks``), so that one block may be of any length too. Each executed
instruction with ``records > 0`` consumes that many ``ACCESS`` records of its warp, in program order, also when its
guard predicate switched off all lanes (``mask == 0``).

Polling. How often a warp goes round a loop that waits for memory is a matter of time, so it is not recorded. One round
is, as runs of the path (``POLL``) with their ACCESS records: it is made 0 times or more, until the polling access that
was made last before it has seen what it waits for; rounds behind each other, all of which record a NANOSLEEP whose
``stride`` is 1 but for the last, are made once each, and the last until then. What it waits for are writes
(``SIGNAL``): words of memory have numbers; an access that changes a word adds one to its count, and one that polls it
has seen what it waits for when at least ``count`` writes came before it.

Waiting for a time. A loop that reads the clock until it is late enough is recorded in the same way: one round, which is
made until the time has passed. The branch at which that is decided (``Flag.CLOCK_WAIT``) records how long it waits,
ACCESS["address"] less CLOCK_ADDRESS, from the latest reading of the clock that its slot names (``Flag.CLOCK``) to the
one that was made last before it.

Bulk copies. An instruction of a BULK kind asks the tensor memory accelerator (TMA) to move bytes. It has one ACCESS
record, of the mbarrier that is told of the copy's end or, without one, of the bytes in shared memory (of a prefetch: in
global memory); the writes (``SIGNAL``) of that access happen when the copy ends, not when the instruction is issued.
What is moved are boxes (``BULK``): rows of contiguous bytes, evenly spaced along up to four dimensions, as far as they
lie within the tensor.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

TRACE_VERSION = 7
WARP_LANES = 32
#: ``stride`` of an access whose lane addresses are no affine sequence (see ``Chunk.scattered``).
SCATTERED = -(2**31)
NO_BARRIER = 7


class PipeClass(IntEnum):
    """Which kind of execution unit an instruction needs; each GPU maps classes to pipes. Which opcode needs which is in
    the opcode's declaration (:mod:`gpusim.isa.opcode`)."""

    NONE = 0  # issues and is done
    ALU = 1  # integer add, logic, shift, compare, select; predicate logic; FP32 compare
    FMA = 2  # FP32 add, multiply, FMA
    IMAD = 3  # integer multiply-add (the FMA-heavy half of FP32)
    IMAD_WIDE = 4  # 32x32+64 multiply-add
    HALF = 5  # packed half
    FP64 = 6
    MUFU = 7  # transcendental and reciprocal approximations
    CONVERT = 8  # conversions and bit counts, which share the transcendental unit
    UNIFORM = 9  # uniform datapath
    BRANCH = 10  # control flow and convergence
    TENSOR = 11  # products of small matrices
    VOTE = 12  # votes and matches
    SHUFFLE = 13  # crosses lanes in the shared-memory path
    SPECIAL = 14  # special registers, and moves between register files
    CONSTANT = 15  # constant-cache loads
    LSU = 16  # every load, store, atomic to global, shared, local, generic
    BARRIER = 17  # block barriers
    TMA = 18  # what is handed to the tensor memory accelerator
    TENSOR_MEMORY = 19  # products into tensor memory, and what moves, loads, stores and allocates it (tcgen05)
    REDUCE = 20  # reductions over a warp
    CONVERT_WIDE = 21  # conversions from and to types of 64 bits
    BFLOAT = 22  # packed bfloat16
    ALU_LITE = 23  # of a lighter ALU beside the ALU, where there is one: move, select, compare, minimum, sum of two
    HALF_MMA = 24  # packed half on the FP64 units' side (HFMA2.MMA)
    HALF_SINGLE = 25  # halves into FP32
    FMA_PAIRS = 26  # FP32 add, multiply, FMA on pairs
    VIADD = 27  # sum of two words on the FMA's side


class MatrixType(IntEnum):
    """What a tensor-core instruction multiplies, as far as its rate depends on it."""

    NONE = 0
    F16 = 1  # half or bfloat16 into FP32
    F16_F16 = 2  # half into half
    TF32 = 3
    F64 = 4
    INT8 = 5
    INT4 = 6
    BIT = 7
    FP8 = 8  # 8-bit floats into FP32
    FP8_F16 = 9
    SCALED_FP8 = 10  # 8-bit floats with scales for blocks, into FP32
    FP4 = 11  # 4-bit floats with scales for blocks, into FP32


class MemoryKind(IntEnum):
    """What a memory instruction does to memory."""

    NONE = 0
    LOAD = 1
    STORE = 2
    ATOMIC = 3  # returns the old value
    REDUCTION = 4  # returns nothing (RED)
    ASYNC_COPY = 5  # LDGSTS: record 0 is the global source, record 1 the shared destination
    PREFETCH = 6
    MATRIX_LOAD = 7  # LDSM
    BULK_LOAD = 8  # global to shared memory by the tensor memory accelerator
    BULK_STORE = 9  # shared to global memory
    BULK_REDUCTION = 10  # shared memory into global memory
    BULK_PREFETCH = 11  # global memory to the L2
    BULK_SHARED_COPY = 12  # shared memory to that of a block of the cluster
    BULK_SHARED_REDUCTION = 13  # shared memory into that of a block of the cluster
    TENSOR_PRODUCT = 20  # a product into tensor memory, of shared memory and shared or tensor memory
    TENSOR_COPY = 21  # shared to tensor memory


class Space(IntEnum):
    """The address space that an access names; GENERIC is resolved by the address itself."""

    NONE = 0
    GLOBAL = 1
    SHARED = 2  # addresses are byte offsets into the block's shared memory
    LOCAL = 3  # addresses are byte offsets into the thread's local memory
    CONSTANT = 4
    GENERIC = 5  # see Launch.shared_window / local_window
    CLUSTER = 6  # shared memory of a block of the cluster: its rank << RANK_SHIFT | byte offset


class Flag(IntEnum):
    """Bits of ``INSTRUCTION['flags']``."""

    BARRIER_WAIT = 1  # the warp waits for its block (BAR.SYNC, BAR.RED)
    EXIT = 2
    BRANCH = 4
    BYPASS_L1 = 8  # volatile, strong or atomic: served by L2
    DEPBAR = 16  # waits until counter ``depbar_index`` is <= ``depbar_level``
    FENCE = 32  # MEMBAR: waits for the warp's own outstanding stores
    READ_ONLY = 64  # LDG.CONSTANT
    COPY_GROUP = 128  # LDGDEPBAR: closes a group of asynchronous copies
    DEVICE_FENCE = 256  # MEMBAR of the GPU or the system: a round trip to the L2 at least
    SLEEP = 512  # NANOSLEEP: ``constant_offset`` nanoseconds; if it records, ACCESS["address"] less SLEEP_ADDRESS
    INVALIDATE_L1 = 1024  # CCTL.IVALL: empties the SM's L1
    CLOCK = 2048  # reads the clock, see below; bit i of ``constant_offset``: in slot i
    CLOCK_WAIT = (
        4096  # a loop that waits for a time goes on, or not; ``constant_offset``: 2 * slot + (1: ns, 0: cycles)
    )
    BULK_GROUP = 8192  # UTMACMDFLUSH: closes a group of bulk copies
    CLUSTER_ARRIVE = 16384  # UCGABAR_ARV: arrives at the barrier of the block's cluster
    CLUSTER_WAIT = 32768  # UCGABAR_WAIT: waits until all threads of the cluster have arrived
    # Products of a warp group (wgmma); ``space`` is SHARED where A lies there, as B always does
    PRODUCT = 65536  # the warp goes on; the tensor core computes
    PRODUCT_GROUP = 131072  # and closes a group of them
    COMMIT = 524288  # UTCBAR: the writes of its access are made when the products into tensor memory so far are done
    PRODUCT_WAIT = 262144  # waits until at most ``depbar_level`` groups are under way
    PHASE_LOOK = 1048576  # SYNCS.PHASECHK looks at an mbarrier: lanes that look at one word share a read
    PHASE_WAIT = 2097152  # and (TRYWAIT) is answered when what it polls has been written, not before
    LAUNCH_DEPENDENTS = 4194304  # PREEXIT: the block lets the grid begin that depends on its own programmatically
    GRID_WAIT = 8388608  # ACQBULK: waits until the grid that its own depends on has completed and its memory is flushed
    COUNTS_LANES = 16777216  # ATOMS.POPC.INC adds to each word how many lanes name it: lanes of one word share a pass
    FLOATING_ATOMIC = 33554432  # an atomic or reduction that L2 serves adds in floating point


#: An address in shared memory that says of which block of the cluster (spaces CLUSTER and GENERIC) has the block's rank
#: from this bit on.
RANK_SHIFT = 24

#: PTX ISA, "nanosleep": the longest.
MAX_SLEEP_NS = 1_000_000
#: The address of a recorded sleep of 0 ns: beyond all memory.
SLEEP_ADDRESS = 1 << 52
#: The same of a wait of no time; and the longest, in cycles or ns: 18 minutes.
CLOCK_ADDRESS, MAX_CLOCK_WAIT = 1 << 53, 1 << 40
#: What a block barrier records whose number or threads stand in a register, or that has a guard (``mask`` 0 where that
#: does not hold): the number in the lowest bits, and from bit BARRIER_THREADS_SHIFT on the threads that meet there, 0
#: for all of the block.
BARRIER_ADDRESS, BARRIER_THREADS_SHIFT = 1 << 54, 4
#: Readings of the clock that a warp's loops may wait from at a time.
CLOCK_SLOTS = 8

INSTRUCTION = np.dtype(
    [
        ("address", "<u4"),  # byte address inside the kernel's code
        ("pipe", "u1"),  # PipeClass
        ("memory_kind", "u1"),  # MemoryKind
        ("space", "u1"),  # Space
        (
            "access_bytes",
            "u1",
        ),  # bytes a lane moves: 1, 2, 4, 8, 16, 32; of a warp group's product: of a column of B, 32 or 64
        ("records", "u1"),  # ACCESS records that one execution consumes: 0, 1, 2
        ("flags", "<u4"),  # Flag bits
        ("stall_cycles", "u1"),  # control field: cycles until the warp may issue again
        ("yield_hint", "u1"),  # control field: 1 = the scheduler should prefer another warp
        ("write_barrier", "u1"),  # counter released when the result is written; 7 = none
        ("read_barrier", "u1"),  # counter released when the operands were read; 7 = none
        ("wait_mask", "u1"),  # counters that must be zero before issue, bit i = counter i
        ("reuse_mask", "u1"),  # operand slots kept in the reuse cache, bit i = slot i
        ("depbar_index", "u1"),
        ("depbar_level", "u1"),
        ("barrier_id", "u1"),  # named barrier of BAR, 0..15; if it records, see BARRIER_ADDRESS
        ("barrier_threads", "<u2"),  # threads that meet at it, 0 = all of the block
        ("destination", "<i2"),  # first destination register, -1 = none
        ("destination_count", "u1"),
        ("sources", "<i2", (3,)),  # first vector register read in each operand slot, -1 = none; memory: address first
        ("source_words", "u1", (3,)),  # registers read from there on (an even one and its successor: 2)
        ("constant_bytes", "u1"),  # read from constant memory at a fixed place, 0 = none
        ("constant_bank", "u1"),
        ("constant_offset", "<u4"),
        ("line", "<i4"),  # source line, 0 = unknown
        ("file", "<i2"),  # index into Program.files, -1 = unknown
        ("matrix_type", "u1"),  # MatrixType
        ("matrix_macs", "<u4"),  # multiply-adds of a tensor-core instruction: rows x columns x depth
    ]
)

RUN = np.dtype([("first", "<u4"), ("count", "<u4"), ("mask", "<u4")])
#: Lane ``l`` of ``mask`` touches ``address + l * stride``; if ``stride == SCATTERED`` it touches
#: ``Chunk.scattered[address, l]``. Lane 0's address is extrapolated where lane 0 is off.
ACCESS = np.dtype([("address", "<u8"), ("stride", "<i4"), ("mask", "<u4")])
#: One warp: its path (index into ``path_start``), and its slice of ``accesses``.
WARP = np.dtype([("path", "<u4"), ("access_count", "<u4"), ("access_start", "<u8")])
#: ``runs`` runs, from number ``run`` of the chunk on, are one round of a polling loop.
POLL = np.dtype([("run", "<u4"), ("runs", "<u4")])
#: Access number ``access`` of the chunk writes word ``word`` (``polls`` 0) for the ``count``-th time, or polls it (1)
#: until it has been written ``count`` times, the last time by warp ``warp`` of block ``block``. The word lies at
#: ``address`` in global memory, or so far into a block's shared memory, with the rank of that block in its cluster from
#: bit RANK_SHIFT on.
SIGNAL = np.dtype(
    [
        ("address", "<u8"),
        ("access", "<u4"),
        ("word", "<u4"),
        ("count", "<u4"),
        ("block", "<u4"),
        ("warp", "<u2"),
        ("polls", "<u2"),
    ]
)
#: A box that access number ``access`` of the chunk moves. Its first row of ``row_bytes`` contiguous bytes lies at
#: ``address`` in global memory (BULK_SHARED_*: so far into the block's shared memory); row (i, j, k, l) lies ``i *
#: stride[0] + ... + l * stride[3]`` bytes further, each index below its ``count``; all counts are 0 where nothing of
#: the box is in bounds. ``bytes`` of shared memory from offset ``shared`` on are moved in all, those out of bounds
#: included, and told to an mbarrier; an instruction may move several boxes: the first of them has ``bytes`` and the
#: multicast, the others 0. ``descriptor``: address of the tensor map, 0 for none. ``blocks``: blocks of the cluster,
#: bit i for rank i, whose shared memory is written; 0: the block's own. ``kind``: MemoryKind. ``swizzle``: how the rows
#: lie in shared memory, as CUtensorMapSwizzle says.
BULK = np.dtype(
    [
        ("address", "<u8"),
        ("descriptor", "<u8"),
        ("stride", "<i8", (4,)),
        ("count", "<u4", (4,)),
        ("row_bytes", "<u4"),
        ("bytes", "<u4"),
        ("shared", "<u4"),
        ("access", "<u4"),
        ("blocks", "<u2"),
        ("kind", "u1"),
        ("swizzle", "u1"),
    ]
)
#: What an instruction asks of the tensor core that works on tensor memory stands in such a record as well. A
#: TENSOR_PRODUCT: ``count`` rows of D, its columns, elements along k that are multiplied, 1; ``stride[0]``: kind and
#: options as gpusim/isa/tensor_memory_ops.py has them; ``descriptor``: the instruction descriptor; ``address``: of D in
#: tensor memory; ``row_bytes``: of a row of A; ``bytes`` of shared memory that are read, B from offset ``shared`` on;
#: ``blocks``: that take part. A TENSOR_COPY: ``count`` rows, chunks of 16 bytes of each, 1, 1; ``address``: in tensor
#: memory. Kinds of BULK records.
TENSOR_KINDS = (MemoryKind.TENSOR_PRODUCT, MemoryKind.TENSOR_COPY)
BULK_KINDS = (*(kind for kind in MemoryKind if kind.name.startswith("BULK_")), *TENSOR_KINDS)


@dataclass(frozen=True)
class Program:
    """The kernel's machine code: ``instructions`` (INSTRUCTION[n]) and the SASS text of each."""

    instructions: np.ndarray
    texts: tuple[str, ...]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """Everything about the launch that the timing needs: shape, resources, provenance.

    ``capability`` is e.g. ``(9, 0)``; ``shared_bytes`` is static plus dynamic plus what the system
    reserves is *not* included; windows are the generic-address bases of shared and local memory.
    """

    kernel: str
    capability: tuple[int, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers_per_thread: int
    shared_bytes: int
    local_bytes: int
    cubin_sha256: str
    gpu: str = ""
    toolchain: str = ""
    shared_window: int = 0
    local_window: int = 0
    #: bytes of each global allocation in address order, (base, bytes): what the kernel could touch.
    allocations: tuple[tuple[int, int], ...] = ()
    cooperative: bool = False
    #: blocks of a thread-block cluster along x, y, z
    cluster: tuple[int, int, int] = (1, 1, 1)
    #: it depends programmatically on the launch before it (programmatic stream serialization), and may begin before
    #: that has ended
    dependent: bool = False

    def facts(self) -> dict[str, Any]:
        """Its fields as data; without ``dependent`` where it is not, as before there was such a field."""
        found = asdict(self)
        if not self.dependent:
            del found["dependent"]
        return found

    @property
    def block_threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        return -(-self.block_threads // WARP_LANES)

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_blocks(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


@dataclass(frozen=True)
class Chunk:
    """Consecutive blocks of a launch, self-contained.

    ``warps`` WARP[blocks * warps_per_block]; ``runs`` RUN[r]; ``path_start`` int64[p + 1], path i is
    ``runs[path_start[i]:path_start[i + 1]]``; ``accesses`` ACCESS[a]; ``scattered`` uint64[s, 32]; ``polls`` POLL[n],
    in the order of their runs; ``signals`` SIGNAL[g] and ``bulks`` BULK[b], in the order of their accesses.

    The last ``open_blocks`` of the blocks go on in the next chunk, which begins with them; a warp may then
    have an empty path here. :meth:`gpusim.trace.record.Trace.chunks` joins such parts.
    """

    first_block: int
    blocks: int
    warps: np.ndarray
    runs: np.ndarray
    path_start: np.ndarray
    accesses: np.ndarray
    scattered: np.ndarray
    open_blocks: int = 0
    polls: np.ndarray = field(default_factory=lambda: np.zeros(0, POLL))
    signals: np.ndarray = field(default_factory=lambda: np.zeros(0, SIGNAL))
    bulks: np.ndarray = field(default_factory=lambda: np.zeros(0, BULK))

    @property
    def polling(self) -> np.ndarray:
        """Whether each run is of a round of polling, which may be executed 0 times or often: bool[runs]."""
        change = np.zeros(len(self.runs) + 1, np.int64)
        change[self.polls["run"]] += 1
        change[self.polls["run"].astype(np.int64) + self.polls["runs"]] -= 1
        return np.cumsum(change)[:-1] > 0

    @property
    def warp_instructions(self) -> int:
        """Warp instructions that the chunk's warps execute."""
        before = np.zeros(len(self.runs) + 1, np.int64)
        np.cumsum(self.runs["count"], out=before[1:])
        per_path = np.diff(before[self.path_start])
        return int(np.bincount(self.warps["path"], minlength=len(per_path)) @ per_path)

    @property
    def nbytes(self) -> int:
        return sum(
            a.nbytes
            for a in (
                self.warps,
                self.runs,
                self.path_start,
                self.accesses,
                self.scattered,
                self.polls,
                self.signals,
                self.bulks,
            )
        )
