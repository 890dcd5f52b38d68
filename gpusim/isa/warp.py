"""How a kernel looks to the interpreter: the columns of its code matrix and the state of a block.

Mental model: :mod:`gpusim.emulator.encode` turns micro-ops into one int32 row each; the interpreter reads nothing else.
Eight warps of a block are a group, a register is one row of the group: 8 x 32 lanes side by side, so that one loop
executes warps in lockstep. All rows lie in one flat int32 array: first those that all groups share (zeros, a sink,
scratch, constants, immediates; the same value in each lane), then each group's own. An operand is an offset and a mask:
-1 for a group's own rows (add the group's base), 0 for shared ones; a warp's lanes of an own row begin at 32 x place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.state_tables import Field, Record, Table
from gpusim.trace.layout import CLOCK_SLOTS

LANES = 32
FULL = 0xFFFFFFFF
GROUP_WARPS = 8
#: Lanes from one row of the register file to the next; the last 16 are unused, so that the rows of a
#: group with few warps do not all fall into the same sets of the host's L1 cache.
ROW = GROUP_WARPS * LANES + 16

# ---- columns of the code matrix ------------------------------------------------------------------
CODE_TABLE = Table(__name__, "matrix", "an instruction", "What the interpreter must know of an instruction.", np.int32)
OP = CODE_TABLE.column("code", "number of its body")
GUARD = CODE_TABLE.column("index", "predicate slot of its guard")
GUARD_FLIP = CODE_TABLE.column("mask", "what the guard is combined with by exclusive or: 0 or -1")
A = CODE_TABLE.column("index", "first source, see SOURCE_TABLE", span=6)
B = CODE_TABLE.column("index", "second source", span=6)
C = CODE_TABLE.column("index", "third source", span=6)
D_OFFSET = CODE_TABLE.column("words", "where the destination's rows begin")
D_OWN = CODE_TABLE.column("mask", "-1: from the group's own rows on; 0: from the file's first row on")
D_WORDS = CODE_TABLE.column("count", "registers written; 0: none")
P0 = CODE_TABLE.column("index", "slot of the first predicate read")
P0_FLIP = CODE_TABLE.column("mask", "0 or -1, as GUARD_FLIP")
P1 = CODE_TABLE.column("index", "slot of the second predicate read")
P1_FLIP = CODE_TABLE.column("mask", "0 or -1")
P2 = CODE_TABLE.column("index", "slot of the third predicate read")
P2_FLIP = CODE_TABLE.column("mask", "0 or -1")
Q0 = CODE_TABLE.column("index", "slot of the first predicate written, SINK_PREDICATE for none")
Q1 = CODE_TABLE.column("index", "slot of the second predicate written")
F0 = CODE_TABLE.column("code", "first of four flags, whose meaning is the body's")
F1 = CODE_TABLE.column("code", "second flag")
F2 = CODE_TABLE.column("code", "third flag")
F3 = CODE_TABLE.column("code", "fourth flag")
SCOPE = CODE_TABLE.column("code", "LANE_WISE, UNIFORM or WARP_WIDE")
PREDICATES_OUT = CODE_TABLE.column("flag", "predicates are written")
VECTOR_BODY = CODE_TABLE.column(
    "code", "number of a body for all warps at once (bodies/wide, masked, loops, launch); 0: none"
)
APART = CODE_TABLE.column("flag", "no source row is a destination row, so a loop may write its result in place")
PLAIN = CODE_TABLE.column("flag", "no source needs a sign change")
ARITHMETIC_RUN = CODE_TABLE.column("count", "arithmetic instructions from here on, up to the next one of another kind")
TARGET = CODE_TABLE.column("index", "instruction that it jumps to; of an indexed branch the byte offset")
CONVERGENCE = CODE_TABLE.column("words", "where the convergence barrier's row begins among the warp's rows")
RECORDS = CODE_TABLE.column("count", "access records that it logs")
BYTES = CODE_TABLE.column("bytes", "accessed by a lane")
SPACE = CODE_TABLE.column("code", "Space of its access")
BASE_OFFSET = CODE_TABLE.column("words", "where the rows of the address's base register begin")
BASE_OWN = CODE_TABLE.column("mask", "as D_OWN")
BASE_WORDS = CODE_TABLE.column("count", "registers of the base: 1 or 2; 0: none")
BASE_SIGNED = CODE_TABLE.column("flag", "a base of one register is signed")
BASE_SHIFT = CODE_TABLE.column("log2", "factor of the base")
UNIFORM_OFFSET = CODE_TABLE.column("words", "where the rows of the address's uniform register begin")
UNIFORM_OWN = CODE_TABLE.column("mask", "as D_OWN")
UNIFORM_WORDS = CODE_TABLE.column("count", "uniform registers: 1 or 2; 0: none")
ADDRESS_OFFSET = CODE_TABLE.column("bytes", "added to the address")
SECOND = CODE_TABLE.column(
    "index", "second address (LDGSTS): base offset, own, words, shift, uniform offset, own, offset", span=7
)
ORDERED = CODE_TABLE.column(
    "code",
    "bits ORDER_SHOWS, DECIDES, and for what polling warps may wait for and polls TRACK_ONE_LANE, _WRITE, _POLL, _VALUE, "
    "_PERHAPS; AWAITS_TIME, WAITS_FOR_TIME, WRITES_LATER, WHOLE_WORD",
)
#: Four cache lines of the host: an instruction's row begins at one.
COLUMNS = CODE_TABLE.width

#: The order in which warps execute it shows in the result; the branch decides whether polling goes on (see ``polls``).
ORDER_SHOWS, DECIDES = 1, 2
TRACK_ONE_LANE, TRACK_WRITE, TRACK_POLL, TRACK_VALUE, TRACK_PERHAPS = 4, 8, 16, 32, 64
#: A branch at which a loop goes round or ends that waits for a time (emulator/clock_loops.py).
AWAITS_TIME = 128
#: The branch that decides whether such a loop goes on, where a trace says for how long (emulator/clock_waits.py).
WAITS_FOR_TIME = 256
#: It writes when the asynchronous work is done that it asks for or tells of: its own warp waits as others do.
WRITES_LATER = 512
WHOLE_WORD = 1024  # an atomic on a word, or the load of its loop: only the word's first byte need be allocated (emulator/encode.py)
TRACKED = TRACK_ONE_LANE | TRACK_WRITE | TRACK_POLL | TRACK_VALUE | TRACK_PERHAPS

#: Runs of the longest way from one decision of a polling loop to the next.
POLL_RUNS = 8
POLL_TABLE = Table(
    __name__, "polls", "a decision of a polling loop", "Where it goes on (emulator/poll_loops.py).", np.int32
)
POLL_AT = POLL_TABLE.column("index", "the branch, an instruction")
POLL_LOOP = POLL_TABLE.column("index", "the loop that it belongs to")
POLL_STAYS = POLL_TABLE.column("flag", "the branch is taken to go on polling")
POLL_KIND = POLL_TABLE.column("code", "POLL_EXACT, POLL_ROUND, POLL_GIVES_UP, POLL_SWAPPED or POLL_TIME")
POLL_HEAD = POLL_TABLE.column("index", "first instruction of the loop")
POLL_BACK = POLL_TABLE.column("flag", "whoever stays here has gone round")
POLL_LEAVES = POLL_TABLE.column("flag", "whoever does not stay leaves the loop")
POLL_GROWS = POLL_TABLE.column("flag", "a NANOSLEEP of the loop may sleep longer from round to round")
POLL_AGAIN = POLL_TABLE.column("flag", "a round of the loop leaves nothing behind: it may be made again")
POLL_SLOT = POLL_TABLE.column("index", "of POLL_TIME: entry of State.clock_from with the time from which on it waits")
POLL_COUNT = POLL_TABLE.column("count", "runs from it to the next decision")
POLL_PATH = POLL_TABLE.column("packed", "first instruction and count of each", span=2 * POLL_RUNS)

#: Of a loop whose one load decides at one branch: the code tells its round. Of another: a round is what was executed.
#: A branch that ends polling without any memory having changed: after so many rounds, after some time.
#: Where the result of an atomic that takes a lock has been looked at. And of a loop that waits for a time.
POLL_EXACT, POLL_ROUND, POLL_GIVES_UP, POLL_SWAPPED, POLL_TIME = range(5)
#: Sleeps of a back-off that are foreseen, rows of registers that are kept while they are.
POLL_SLEEPS, KEPT_ROWS = 16, 24

SOURCE_TABLE = Table(__name__, "source", "", "A source operand: columns from A, B or C on.", np.int32)
SOURCE_OFFSET = SOURCE_TABLE.column("words", "where its rows begin")
SOURCE_OWN = SOURCE_TABLE.column("mask", "as D_OWN")
SOURCE_WORDS = SOURCE_TABLE.column("count", "registers read")
SOURCE_MODE = SOURCE_TABLE.column("code", "MODE_PLAIN, MODE_MASK or MODE_NEGATE")
SOURCE_KEEP = SOURCE_TABLE.column("mask", "bits of the last word that are kept")
SOURCE_FLIP = SOURCE_TABLE.column("mask", "bits of the last word that are flipped then")

MODE_PLAIN, MODE_MASK, MODE_NEGATE = range(3)
LANE_WISE, UNIFORM, WARP_WIDE = range(3)

# ---- predicate slots of a group, each GROUP_WARPS lane masks -------------------------------------
TRUE_PREDICATE = 7
UNIFORM_PREDICATES = 8  # UP0..UP6, UPT at 15
TRUE_UNIFORM_PREDICATE = 15
SINK_PREDICATE = 16
PREDICATE_SLOTS = 20

BLOCK_BARRIERS = 16
#: Warps that multiply together (wgmma), and the emulator's own barriers at which each such group waits for its warps.
PRODUCT_WARPS = 4
ALL_BARRIERS = BLOCK_BARRIERS + 8

# ---- fragment states -----------------------------------------------------------------------------
FREE, READY, AT_CONVERGENCE, AT_WARP_WAIT, AT_BARRIER, AT_GRID, AT_CLUSTER, AT_REGISTERS = range(8)

# ---- rows that all groups share ------------------------------------------------------------------
# Where operand areas of four rows begin: zeros, one that nobody reads, and scratch for sources x, y, z with
# sign changes and for results.
ZERO_ROW, SINK_ROW, X_ROW, Y_ROW, Z_ROW, W_ROW = range(0, 24, 4)
FIRST_POOL_ROW = W_ROW + 8  # the largest result, of a DMMA, has eight

# ---- what run functions answer -------------------------------------------------------------------
(
    DONE,
    PREEMPTED,
    LOG_FULL,
    LIMIT,
    BAD_ADDRESS,
    MISALIGNED,
    BAD_CONSTANT,
    BAD_TARGET,
    TRAPPED,
    DEADLOCK,
    HOST_CALL,  # Python must serve a driver function
    GRID_WAIT,
    SPLIT,
    PAUSED,  # Python may look at how far the launch is, and goes on
    BAD_POINTER,
    CLUSTER_WAIT,  # every warp that is left waits for other blocks of the cluster
    ARRIVED_TWICE,  # at the cluster's barrier, with no wait between
    BAD_TENSOR,  # an instruction on tensor memory cannot be executed; State.fault_bytes says why (tensor_memory_ops.py)
    BAD_BULK,  # what a bulk copy asks for cannot be done; State.fault_space says why (emulator/tensor_maps.py)
) = range(19)


class Machine(NamedTuple):
    """The arrays of a launch whose sizes differ from launch to launch."""

    matrix: np.ndarray  # int32[n, COLUMNS]: the encoded kernel
    registers: np.ndarray  # int32, 64-byte aligned: shared rows, then each group's own
    index_of: np.ndarray  # int32[code_bytes / 16]: instruction index at that address, -1 for none
    pointers: np.ndarray  # int64[p, 2]: what a pointer to a function holds (ascending), instruction index
    allocations: np.ndarray  # int64[a, 3]: device address (ascending), bytes, host address
    hint: np.ndarray  # int64[n]: allocation that an instruction last touched
    constants: np.ndarray  # uint8: all banks, one after another
    runs: np.ndarray  # uint32[r, 4]: the log, see LOG columns
    accesses: np.ndarray  # int64[a, 3]
    scattered: np.ndarray  # uint64[s, 32]
    syncs: np.ndarray  # int64[y, 9]: without rows where no listener asks for barriers
    polls: np.ndarray  # int32[d, 27]: decisions of polling loops
    words: np.ndarray  # int64[w, 9]: a power of two of rows; none where the kernel does not poll
    signals: np.ndarray  # int64[g, 7]: the log's
    history: np.ndarray  # int64[h, 4]: the latest changes of words that are polled or may be, a ring
    touched: np.ndarray  # int64[t]: by number of a polled word, modulo t: value of ``changes`` at its latest change


# ---- the log: in time order; the warps' records are sorted apart when a chunk closes ----------------
RUN_TABLE = Table(__name__, "runs", "a run of instructions of a warp", "The log's runs.", np.uint32)
RUN_WARP = RUN_TABLE.column("index", "the warp, counted from the log's first block")
RUN_FIRST = RUN_TABLE.column("index", "first instruction")
RUN_COUNT = RUN_TABLE.column(
    "packed", "instructions | runs, from this one on, that are one round of polling << RUN_POLL_SHIFT"
)
RUN_MASK = RUN_TABLE.column("mask", "lanes that are on")
#: No kernel has so many instructions; a round has fewer runs than the other eight bits count.
RUN_LENGTH = (1 << 24) - 1
RUN_POLL_SHIFT = 24

ACCESS_TABLE = Table(__name__, "accesses", "an access of a warp", "The log's accesses.")
ACCESS_WARP = ACCESS_TABLE.column("index", "the warp, counted from the log's first block")
ACCESS_ADDRESS = ACCESS_TABLE.column("address", "of lane 0, or the row of scattered addresses")
ACCESS_PATTERN = ACCESS_TABLE.column("packed", "stride << 32 | lane mask")

SYNC_TABLE = Table(
    __name__,
    "syncs",
    "a barrier reached by lanes of a warp",
    "The log's barriers, kept for listeners that ask for them.",
)
SYNC_WARP = SYNC_TABLE.column("index", "the warp, counted from the log's first block")
SYNC_INDEX = SYNC_TABLE.column("index", "the instruction")
SYNC_KIND = SYNC_TABLE.column("code", "SYNC_BLOCK_WAIT, SYNC_BLOCK_ARRIVE, SYNC_WARP_WAIT or SYNC_WARP_RELEASE")
SYNC_NUMBER = SYNC_TABLE.column("code", "number of a block barrier, lanes that a warp's barrier names")
SYNC_THREADS = SYNC_TABLE.column("count", "threads that meet at a block barrier; 0: all of the block")
SYNC_MASK = SYNC_TABLE.column("mask", "lanes that have come together")
SYNC_EXECUTING = SYNC_TABLE.column("mask", "those of them whose guard holds, and that name the same lanes")
SYNC_LIVE = SYNC_TABLE.column("mask", "lanes of the warp that have not ended")
SYNC_TURN = SYNC_TABLE.column("count", "how often the block barrier had completed before")

SYNC_BLOCK_WAIT, SYNC_BLOCK_ARRIVE, SYNC_WARP_WAIT = range(3)
SYNC_WARP_RELEASE = 3  # lanes that go on although some that they wait for cannot come

SIGNAL_TABLE = Table(
    __name__, "signals", "a word that an access writes or polls", "The log's accesses to words that warps poll."
)
SIGNAL_ACCESS = SIGNAL_TABLE.column("index", "the access, in the log")
SIGNAL_WORD = SIGNAL_TABLE.column("index", "the word: the launch's words that are polled or may be, as they were met")
SIGNAL_POLLS = SIGNAL_TABLE.column(
    "code", "1: the access polls the word; 0: it writes it; 2: it would poll it if its loop turned out to wait"
)
SIGNAL_COUNT = SIGNAL_TABLE.column(
    "count", "writes of the word so far: this one included, or those that a poll has to see"
)
SIGNAL_BLOCK = SIGNAL_TABLE.column("index", "block that wrote last")
SIGNAL_WARP = SIGNAL_TABLE.column("index", "warp of it that wrote last")
SIGNAL_ADDRESS = SIGNAL_TABLE.column(
    "address",
    "of the word; in shared memory from the block's first byte on, with its rank in its cluster from bit RANK_SHIFT on",
)

WORD_TABLE = Table(__name__, "words", "a word of memory", "Words that were written by what TRACK names: an open hash.")
WORD_KEY = WORD_TABLE.column(
    "packed", "1 + its address / 4 in global memory; block and offset in shared memory; 0: free"
)
WORD_INDEX = WORD_TABLE.column("index", "the word's number")
WORD_COUNT = WORD_TABLE.column("count", "writes that changed it")
WORD_VALUE = WORD_TABLE.column("words", "its value after the last one")
WORD_FIRST = WORD_TABLE.column("words", "its value before the first one")
WORD_WRITER = WORD_TABLE.column("index", "the last one's warp, counted over all blocks with room for MAX_WARPS each")
WORD_SHARED = WORD_TABLE.column("flag", "several warps have written it")
WORD_POLLED = WORD_TABLE.column("flag", "a warp has polled it")
WORD_LAST = WORD_TABLE.column("count", "changes that ``history`` was told up to its latest one; 0: none")

HISTORY_TABLE = Table(
    __name__, "history", "a change of a word", "What words held that are polled, or may be, for who looks late."
)
HISTORY_BEFORE = HISTORY_TABLE.column("count", "WORD_LAST before it")
HISTORY_COUNT = HISTORY_TABLE.column("count", "WORD_COUNT after it")
HISTORY_WRITER = HISTORY_TABLE.column("index", "WORD_WRITER after it")
HISTORY_VALUE = HISTORY_TABLE.column("words", "WORD_VALUE after it")

RUNS, ACCESSES, SCATTERED_ROWS, SYNCS, SIGNALS = range(5)  # entries of State.used

MAX_WARPS = 32
#: Blocks of a thread-block cluster at most, where the kernel allows more than the portable eight.
MAX_CLUSTER = 16
TENSOR_RULES = 5
TENSOR_WORK_WORDS = 4352
#: Room for the entry points of all bodies.
ENTRY_POINTS = 160

#: Arrays by warp have room for the largest block.
_BY_WARP, _BY_WARP_AND_FRAGMENT = f"({MAX_WARPS},)<i8", f"({MAX_WARPS},{LANES})"
_BY_GROUP_PLACE, _BY_LANE, _BY_BARRIER = f"({GROUP_WARPS},)<i8", f"({LANES},)<i8", f"({ALL_BARRIERS},)<i8"
_BY_RANK = f"({MAX_CLUSTER},)<i8"

#: The state of one resident block, with the launch facts that it needs, as one record: compiled functions
#: take it as a single pointer.
STATE_RECORD = Record(
    __name__,
    "STATE",
    "One resident block and the launch that it belongs to.",
    # what every instruction looks at, in whole cache lines of the host: the record begins at one
    # the warps that run in lockstep, by their place in the group
    Field("active", _BY_GROUP_PLACE, "mask", "their lanes; 0 for warps of the group that are elsewhere"),
    Field("span", _BY_GROUP_PLACE, "mask", "all lanes of the warps from the first to the last of them"),
    Field("executing", _BY_GROUP_PLACE, "mask", "lanes that execute the instruction"),
    Field("condition", _BY_GROUP_PLACE, "mask", "lanes where the first predicate operand holds"),
    Field("outcome", _BY_GROUP_PLACE, "code", "of a control-flow instruction (emulator/control_flow.py)"),
    Field("goal", _BY_GROUP_PLACE, "index", "instruction to go on with after it"),
    Field("p0", f"({GROUP_WARPS},)<u4", "mask", "first predicate operand"),
    Field("p1", f"({GROUP_WARPS},)<u4", "mask", "second predicate operand"),
    Field("q", f"({GROUP_WARPS},2)<u4", "mask", "third predicate operand, then the predicates written"),
    # the block's warps
    Field("predicates", f"({MAX_WARPS * PREDICATE_SLOTS},)<i8", "mask", "lanes where each holds, [group][slot][warp]"),
    Field("quantum_left", _BY_WARP, "instructions", "until the warp's quantum is used up, at a jump"),
    Field("quantum_spent", _BY_WARP, "flag", "it is used up for the fragment held"),
    # the fragment of each warp that runs, or was stopped in the middle
    Field("held", _BY_WARP, "flag", "there is one"),
    Field("held_pc", _BY_WARP, "index", "its next instruction"),
    Field("held_mask", _BY_WARP, "mask", "its lanes"),
    Field("held_first", _BY_WARP, "index", "instruction at which its run began"),
    Field("held_left", _BY_WARP, "instructions", "until it gives way to another fragment of the warp"),
    # launch facts, set once
    Field("grid_dim", "(3,)<i8", "count", "blocks along x, y, z"),
    Field("block_dim", "(3,)<i8", "count", "threads along x, y, z"),
    Field("cluster_dim", "(3,)<i8", "count", "blocks of a cluster along x, y, z"),
    Field("cluster_size", "<i8", "count", "blocks of a cluster; 1: the launch has none"),
    Field("work_host", "<i8", "host address", "of what clusters take over (emulator/work_taking.py); 0: none"),
    Field("warps", "<i8", "count", "warps of the block"),
    Field("own_base", "<i8", "words", "where group 0's rows begin"),
    Field("own_stride", "<i8", "words", "from a group's rows to the next one's"),
    Field("shared_base", "<i8", "address", "first shared address of the kernel"),
    Field("shared_low", "<i8", "address", "from which on shared memory is the block's; below, the system keeps some"),
    Field("shared_bytes", "<i8", "bytes", "shared memory of the block"),
    Field("local_bytes", "<i8", "bytes", "local memory of a thread"),
    Field("shared_window", "<i8", "address", "of shared memory in generic addresses"),
    Field("local_window", "<i8", "address", "of local memory in generic addresses"),
    Field("sm_count", "<i8", "count", "SMs of the GPU"),
    Field("sm_warps", "<i8", "count", "warps that an SM holds at most"),
    Field("quantum", "<i8", "instructions", "that a warp may execute before the next one of its block runs"),
    Field("limit", "<i8", "instructions", "after which the launch counts as endless"),
    Field("slice", "<i8", "instructions", "that a block may execute before another one runs"),
    Field("slice_end", "<i8", "instructions", "``executed`` at which the block's slice ends; 0: none has begun"),
    Field("pause_end", "<i8", "instructions", "value of ``executed`` at which Python has its turn for a moment"),
    Field(
        "dropping_call", "<i8", "index", "1 + number of ``vprintf`` among the externals once its buffer is full; 0: no"
    ),
    Field("dropped_prints", "<i8", "count", "calls of ``vprintf`` since then, by lane"),
    Field("shared_host", "<i8", "host address", "of shared memory"),
    Field("local_host", "<i8", "host address", "of local memory, [warp][word][lane][4 bytes]"),
    Field("state_host", "<i8", "host address", "of this record"),
    Field("registers_host", "<i8", "host address", "of the register file"),
    Field("matrix_host", "<i8", "host address", "of the code matrix"),
    Field("arithmetic_entry", "<i8", "host address", "entry point of runs of arithmetic (emulator/runs.py)"),
    # entry points of what few kernels need, 0: not needed
    Field("texture_entry", "<i8", "host address", "of texture units (emulator/texture_units.py)"),
    Field("product_entry", "<i8", "host address", "of warp groups' products (emulator/warpgroup_products.py)"),
    Field("product_host", "<i8", "host address", "of the room that these work in"),
    Field("tensor_entry", "<i8", "host address", "of what works on tensor memory (emulator/tensor_unit.py)"),
    Field("tensor_host", "<i8", "host address", "of tensor memory, and behind it room for products; 0: not needed"),
    Field("tensor_left", "<i8", "count", "blocks that ended with tensor memory that they had not given back"),
    Field("tensor_left_block", "<i8", "index", "the first of them"),
    Field("tensor_left_units", "<i8", "mask", "what it had: bit i for columns 32 i to 32 i + 31"),
    # the log of events, 0: nobody asks for them (emulator/events.py)
    Field("watch_host", "<i8", "host address", "of what is noted of each instruction"),
    Field("events_host", "<i8", "host address", "of the log's events"),
    Field("events_used", "<i8", "count", "events in the log"),
    Field("events_room", "<i8", "count", "events that it has room for"),
    Field("lockstep", "<i8", "flag", "warps at the same instruction are executed together"),
    Field("entries", f"({ENTRY_POINTS},)<i8", "host address", "of bodies by number (isa/body.py)"),
    Field("exists", _BY_WARP, "mask", "lanes that the launch gives each warp"),
    Field("thread", f"({MAX_WARPS},3,{LANES})<i4", "index", "threadIdx x, y, z of each lane"),
    # the block
    Field("linear", "<i8", "index", "number of the block in the grid"),
    Field("block_index", "(3,)<i8", "index", "blockIdx"),
    Field("started", "<i8", "flag", "the block is under way"),
    Field("cluster_rank", "<i8", "index", "of the block in its cluster"),
    Field("peer_shared", _BY_RANK, "host address", "of shared memory of each block of the cluster; 0: it has ended"),
    Field("peer_tensor", _BY_RANK, "host address", "of the tensor memory of each block of the cluster; 0: it has none"),
    Field("peer_block", _BY_RANK, "index", "number of each block of the cluster in the grid"),
    Field("cluster_arrived", _BY_WARP, "mask", "lanes that have arrived at the cluster's barrier and not been let go"),
    Field("next_group", "<i8", "index", "group that runs next"),
    Field("in_quantum", "<i8", "flag", "its quantum has begun"),
    Field("one_by_one", "<i8", "flag", "warps run one by one until the next block barrier"),
    Field("executed", "<i8", "instructions", "of the launch before those that run at the moment"),
    Field(
        "dispatched", "<i8", "instructions", "that those are if each counts once for all warps that ran it in lockstep"
    ),
    Field("gathered", "<i8", "count", "how often warps were chosen to run in lockstep"),
    Field("clock", "<i8", "instructions", "of the launch up to the one that reads the clock, and ``time_ahead``"),
    Field("hurries", "<i8", "flag", "loops that wait for a time end as soon as the clock can be put forward to it"),
    Field("last_wait", "<i8", "instructions", "by which it was put forward in the one that ended last"),
    Field("time_ahead", "<i8", "instructions", "by which the clock was put forward in such loops"),
    Field("now", "<i8", "count", "fragments that have stopped, for fairness among them"),
    Field("at_barrier", "<i8", "count", "fragments that wait at block barriers"),
    Field("used", "(5,)<i8", "count", "entries of the log: RUNS, ACCESSES, SCATTERED_ROWS, SYNCS, SIGNALS"),
    Field("epoch", "<i8", "count", "how often the log was emptied"),
    Field("words_used", "<i8", "count", "words in ``words``"),
    Field("changes", "<i8", "count", "writes of words that warps have polled"),
    Field("history_used", "<i8", "count", "changes of words that ``history`` was told"),
    Field("shown", "<i8", "words", "what a word holds in place of which a poll is shown what it held before"),
    Field("impatient", "<i8", "flag", "warps that poll go on at once: nobody else can run, their loops may give up"),
    Field("only_polled", "<i8", "flag", "the block was left since all its warps only polled"),
    # its warps
    Field("alive", "<i8", "count", "warps with lanes that have not ended"),
    Field("live", _BY_WARP, "mask", "lanes that have not ended"),
    Field("ready", _BY_WARP, "count", "fragments that can run"),
    Field("result", f"({MAX_WARPS},)<i4", "code", "what the last BAR.RED gave"),
    Field("spin_pc", _BY_WARP, "index", "last YIELD while others of the warp waited to converge"),
    Field("spin_hash", _BY_WARP, "hash", "the registers at that time"),
    Field("spin_turns", _BY_WARP, "count", "such YIELDs since a register changed"),
    Field("fragments", _BY_WARP, "count", "entries of the following table that have been used"),
    # the warp's other fragments
    Field("pc", _BY_WARP_AND_FRAGMENT + "<i4", "index", "next instruction"),
    Field("fragment", _BY_WARP_AND_FRAGMENT + "<i4", "code", "FREE, READY or what it waits at"),
    Field("mask", _BY_WARP_AND_FRAGMENT + "<i8", "mask", "its lanes"),
    Field("wait", _BY_WARP_AND_FRAGMENT + "<i8", "code", "convergence row, lane mask or barrier that it waits for"),
    Field("stamp", _BY_WARP_AND_FRAGMENT + "<i8", "count", "value of ``now`` when it stopped"),
    # polling loops: what a warp polled when it last had to go on, so that rounds that only repeat leave the log
    Field("poll_loop", _BY_WARP, "index", "1 + the loop that all lanes held poll in; 0: none"),
    Field("poll_mask", _BY_WARP, "mask", "those lanes"),
    Field("poll_decision", _BY_WARP, "index", "1 + row of ``polls`` of the first decision"),
    Field("poll_access", _BY_WARP, "index", "the access before it, in the log"),
    Field("poll_epoch", _BY_WARP, "count", "value of ``epoch`` then"),
    Field("poll_sleep", _BY_WARP, "address", "that the first NANOSLEEP by a register since then recorded; 0: none"),
    Field(
        "poll_sleeps", f"({MAX_WARPS},{POLL_SLEEPS})<i8", "count", "ns for which its rounds sleep, one after the other"
    ),
    Field("poll_sleeps_known", _BY_WARP, "count", "of them; 0: they are not known, or all alike"),
    Field("kept", f"({KEPT_ROWS},{LANES})<i4", "words", "registers while it is found out what rounds would compute"),
    Field("kept_at", f"({KEPT_ROWS},)<i8", "words", "where they begin"),
    Field("kept_predicates", f"({PREDICATE_SLOTS},)<i8", "mask", "and the warp's predicates"),
    Field("poll_clock", _BY_WARP, "instructions", "what the clock says to the warp while it polls"),
    Field("poll_lanes", _BY_WARP, "mask", "lanes that poll while others of the warp can do something else"),
    Field("poll_left", _BY_WARP, "flag", "the warp has not gone on since its last decision"),
    Field("poll_last", _BY_WARP, "index", "its latest polling access, in the log"),
    Field("poll_needs", _BY_WARP, "count", "entries of ``signals`` before that access"),
    Field("poll_mark", f"({MAX_WARPS},6)<i8", "count", "``used`` and ``epoch`` when the round began"),
    Field("poll_accesses", _BY_WARP, "count", "accesses of a round"),
    Field("poll_rounds", _BY_WARP, "count", "rounds that left the log"),
    Field("poll_words", _BY_WARP, "count", "words of its latest polling access that had changed"),
    Field("poll_key", _BY_WARP, "packed", "WORD_KEY of one of them"),
    Field("poll_count", _BY_WARP, "count", "WORD_COUNT of it"),
    Field("poll_watch", _BY_WARP, "index", "number of the word that it polls; -1: none, -2: several"),
    Field("poll_low", _BY_WARP, "count", "poll_count when it last had to go on"),
    # who looks late asks from which change on it would have gone: it looks at what was there then
    Field("probe", _BY_WARP, "count", "WORD_COUNT at which it looks; 0: at what is there"),
    Field("probe_low", _BY_WARP, "count", "WORD_COUNT at which it goes on polling"),
    Field("probe_high", _BY_WARP, "count", "WORD_COUNT at which it does not"),
    Field("poll_found", _BY_WARP, "count", "the answer; 0: not known"),
    # loops that wait for a time
    Field("clock_ahead", _BY_WARP, "instructions", "by which the clock was put forward for the warp in such loops"),
    Field("clock_read", _BY_WARP, "instructions", "what the clock said to it last"),
    Field(
        "clock_from",
        f"({MAX_WARPS},{CLOCK_SLOTS})<i8",
        "instructions",
        "and when it was last read to wait from then on",
    ),
    Field("clock_wait", _BY_WARP, "instructions", "1 + how long its loop waits; 0: not known, -1: nor to be"),
    Field("clock_shown", "<i8", "instructions", "what the clock says in place of the time; 0: the time"),
    Field("noted", _BY_LANE, "address", "of each lane of an access that is tracked"),
    # registers that warps hand over (setmaxnreg)
    Field("thread_registers", "<i8", "count", "registers that a thread begins with"),
    Field("held_registers", _BY_WARP, "count", "registers that each of its threads has"),
    Field("free_registers", "<i8", "count", "registers of the block's pool"),
    # block barriers
    Field("arrived", f"({ALL_BARRIERS},{MAX_WARPS})<i8", "mask", "lanes that have arrived"),
    Field("again", _BY_BARRIER, "count", "arrivals of lanes that had arrived before, without waiting"),
    Field("vote", f"({ALL_BARRIERS},{MAX_WARPS})<i8", "mask", "lanes whose predicate BAR.RED counts"),
    Field("arrivals", "<i8", "flag", "some warp of the block has arrived at one"),
    Field("expected", _BY_BARRIER, "count", "threads that meet there; 0: all of the block"),
    Field("turn", _BY_BARRIER, "count", "how often it has completed"),
    Field("reduction", _BY_BARRIER, "code", "what BAR.RED makes of the votes"),
    Field("pair_allocation", "(2,)<i8", "address", "shared, of the mbarrier of paired allocations, and of its parity"),
    # bulk copies, by the tensor memory accelerator
    Field("bulk_entry", "<i8", "host address", "its entry point (emulator/bulk_copies.py), 0: not needed"),
    Field("without_data", "<i8", "flag", "paths and addresses alone count: copies move nothing, products are left out"),
    Field("bulks_host", "<i8", "host address", "of the log's boxes (emulator/tensor_boxes.py)"),
    Field("bulks_used", "<i8", "count", "boxes in the log"),
    Field("bulks_room", "<i8", "count", "boxes that it has room for"),
    Field("allocations_host", "<i8", "host address", "of ``allocations``"),
    Field("allocations", "<i8", "count", "rows of it"),
    Field("allocation_hint", "<i8", "index", "row that held what a bulk copy touched last"),
    Field("tensor", "(60,)<i8", "code", "the tensor map and the box at hand (emulator/tensor_maps.py)"),
    Field("bulk_targets", _BY_RANK, "host address", "of shared address 0 of each block that a copy reaches"),
    Field("shown_place", "<i8", "address", "of the last bulk copy: where in shared memory it reads or writes"),
    Field("shown_bytes", "<i8", "bytes", "how much of it"),
    Field("shown_blocks", "<i8", "mask", "ranks of the blocks in whose shared memory it does"),
    Field("shown_barrier", "<i8", "address", "the mbarrier that is told, -1: none"),
    Field("shown_source", "<i8", "address", "what it reads of the block's shared memory to write there; -1: none"),
    Field("shown_told", "<i8", "bytes", "what each mbarrier is told of"),
    Field("bulk_strides", "(4,)<i8", "bytes", "from row to row of a box that is noted"),
    Field("bulk_counts", "(4,)<i8", "count", "rows of it"),
    # where an instruction went wrong
    Field("fault_index", "<i8", "index", "the instruction"),
    Field("fault_warp", "<i8", "index", "the warp"),
    Field("fault_lane", "<i8", "index", "the first lane"),
    Field("fault_address", "<i8", "address", "what it named"),
    Field("fault_bytes", "<i8", "bytes", "of the access"),
    Field("fault_space", "<i8", "code", "Space of the access"),
    # scratch of one instruction
    Field("address", _BY_LANE, "address", "of each lane; later the host address"),
    Field("second", _BY_LANE, "address", "the second one of an asynchronous copy"),
    Field("skipped", _BY_LANE, "bytes", "from the aligned address to the one that the lane named"),
    # of the tensor bodies
    Field("rules", f"({TENSOR_RULES},)<i4", "code", "what this generation does (bodies/tensor_rules.py)"),
    Field("work", f"({TENSOR_WORK_WORDS},)<i4", "words", "room for two decoded matrices"),
)
STATE = STATE_RECORD.dtype
