"""The SM's timing constants as one int64 vector, which every jitted component reads by name.

Mental model: :class:`GpuSpec` is for people, ``timing[HIT_LATENCY]`` for the inner loops: a vector of
whole numbers that costs one pointer to pass. The names below are its indices. Latencies are SM cycles
unless the name says ticks; :func:`sm_timing` is the only place where one becomes the other.
"""

from __future__ import annotations

import math

import numpy as np

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.crossbar import request_latency_ticks
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.scheduler import MOST_WARPS
from gpusim.state_tables import Table

TIMING_TABLE = Table(
    __name__, "timing", "", "The GPU's figures, and a few of the launch, as the jitted functions read them."
)
SUB_CORES = TIMING_TABLE.column("count", "sub-cores of an SM")
WARPS_PER_SUB_CORE = TIMING_TABLE.column("count", "warp slots of a sub-core")
MAX_BLOCKS = TIMING_TABLE.column("count", "block slots of an SM")
QUEUE_ENTRIES = TIMING_TABLE.column("count", "memory instructions that a sub-core queues")
ACCEPT_INTERVAL = TIMING_TABLE.column("cycles", "from one instruction that the LSU takes to the next, at least")
HIT_LATENCY = TIMING_TABLE.column("cycles", "issue to data of an L1 hit")
SHARED_LATENCY = TIMING_TABLE.column("cycles", "issue to data of shared memory")
SHUFFLE_LATENCY = TIMING_TABLE.column("cycles", "issue to data of a shuffle")
BARRIER_LATENCY = TIMING_TABLE.column("cycles", "last arrival to the barrier's opening")
OPERAND_READ = TIMING_TABLE.column("cycles", "issue to the release of source registers")
TAG_BANKS = TIMING_TABLE.column("count", "lookups a cycle")
DATA_BANKS = TIMING_TABLE.column("count", "4-byte words a cycle")
L1_WAYS = TIMING_TABLE.column("count", "ways of the L1")
L1_SETS = TIMING_TABLE.column("count", "sets of the L1: of the launch, what the shared carve-out leaves")
READ_LIMIT = TIMING_TABLE.column("count", "line requests with data that may be unanswered")
WRITE_LIMIT = TIMING_TABLE.column("count", "sectors of writes and reductions that may be unacknowledged")
FILL_TICKS_PER_SECTOR = TIMING_TABLE.column("ticks", "of the input port from the crossbar")
STORE_TICKS_PER_SECTOR = TIMING_TABLE.column("ticks", "of the output port to the crossbar")
REQUEST_LATENCY_TICKS = TIMING_TABLE.column("ticks", "SM output to L2 slice input")
WARPS_PER_BLOCK = TIMING_TABLE.column("count", "of the launch")
LOCAL_BYTES_PER_WARP = TIMING_TABLE.column("bytes", "of the launch")
SHARED_WINDOW = TIMING_TABLE.column("code", "generic address >> 24 of shared memory; -1: none")
LOCAL_WINDOW = TIMING_TABLE.column("code", "the same of local memory")
FIRST_SM = TIMING_TABLE.column("index", "the machine's number of the group's first SM")
CONFLICT_FREE = TIMING_TABLE.column("flag", "every access takes the least passes over the banks")
ONE_LOOKUP = TIMING_TABLE.column("flag", "every access takes one cycle of the tag stage")
CODE_L0_MISS = TIMING_TABLE.column("cycles", "a line of code from the SM's L1 to a sub-core")
CODE_L1_MISS = TIMING_TABLE.column("cycles", "a line of code from behind the L1.5")
CODE_L1_LINES = TIMING_TABLE.column("count", "lines of code that come to the SM's L1 together, from the L1.5")
CODE_L15_HIT = TIMING_TABLE.column("cycles", "a line of code from the L1.5")
CODE_L15_LINES = TIMING_TABLE.column("count", "lines of code that come together from behind the L1.5")
CODE_L1_INTERVAL = TIMING_TABLE.column("cycles", "from one line that the SM's L1 gives to the next")
CODE_LINES = TIMING_TABLE.column("count", "lines of code of the program")
CODE_AHEAD = TIMING_TABLE.column("count", "instructions that a warp has fetched ahead")
DECODE_CYCLES = TIMING_TABLE.column("cycles", "arrival of a line of code to the first issue from it")
CONSTANT_MISS = TIMING_TABLE.column("cycles", "a line that a constant cache lacks")
ADDRESS_LATENCY = TIMING_TABLE.column("cycles", "issue to the first cycle in which the LSU can take the instruction")
ADDRESS_INTERVAL = TIMING_TABLE.column(
    "cycles", "from one instruction whose addresses a sub-core works out to the next"
)
WRITE_BACK_CYCLES = TIMING_TABLE.column("cycles", "to write one register of a warp with loaded data")
FENCE_LATENCY = TIMING_TABLE.column("cycles", "a fence of the GPU at least: there and back to the L2")
TMA_ENTRIES = TIMING_TABLE.column(
    "count", "bulk instructions that the tensor memory accelerator keeps; 0: there is none"
)
TMA_REQUESTS = TIMING_TABLE.column("count", "of its line requests that may be unanswered")
TMA_SETUP = TIMING_TABLE.column("cycles", "issue of a bulk instruction to its first request")
TMA_MAP = TIMING_TABLE.column("cycles", "more where a tensor map says what to move")
TMA_INTERVAL = TIMING_TABLE.column("cycles", "from one of its requests to the next")
TMA_COMPLETION = TIMING_TABLE.column("cycles", "last data or acknowledgement to what waits for it")
TMA_FILL_TICKS = TIMING_TABLE.column("ticks", "of the input port from the crossbar, a sector of its data")
CLUSTER_LATENCY = TIMING_TABLE.column("cycles", "issue to data of another SM's shared memory")
CLUSTER_SPREAD = TIMING_TABLE.column("cycles", "by which the ways of SMs to each other's shared memory differ at most")
CLUSTER_SECTOR_TICKS = TIMING_TABLE.column(
    "ticks", "that 32 bytes take through an SM's port to the network between SMs"
)
CLUSTER_BARRIER_LATENCY = TIMING_TABLE.column("cycles", "last arrival to the opening of the barrier of a cluster")
CLUSTER_SIZE = TIMING_TABLE.column("count", "blocks of a cluster, of the launch")
TENSOR_COLUMN_TICKS = TIMING_TABLE.column(
    "ticks", "of a column of a product into tensor memory; 0: there is no such memory"
)
TENSOR_SHARED_BYTES = TIMING_TABLE.column("bytes", "that shared memory gives the tensor core a cycle")
TENSOR_LATENCY = TIMING_TABLE.column("cycles", "from a product's end to its result's, as a commit tells it")
TENSOR_PAIR_LATENCY = TIMING_TABLE.column("cycles", "more, of a product of a pair of blocks")
PRODUCT_QUEUE = TIMING_TABLE.column("count", "products (wgmma) of a warp that a tensor core keeps")
CHAINED = TIMING_TABLE.column("flag", "the launch is a chain of grids, which let those begin that depend on them")
STORE_SLOT_SECTORS = TIMING_TABLE.column("sectors", "of the output port's time that a line of a store takes at least")
FILL_PASS_SECTORS = TIMING_TABLE.column("sectors", "of a line from L2 that one pass over the data banks writes")
RETURN_CYCLES = TIMING_TABLE.column(
    "cycles", "that a pass without conflicts takes the way between data banks and registers"
)
TAG_LEAD = TIMING_TABLE.column("cycles", "of passes over the banks that may wait between tag and data stage")

#: Products of a warp that a tensor core may keep at most.
MOST_QUEUED_PRODUCTS = 16
#: Lines of one instruction at most: 32 lanes of 32 bytes in local memory, where each word has its own
#: line. One instruction may exceed a limit that is otherwise kept; tables have so much slack.
LINES_MAX = 256
#: Tags of bulk instructions that are about to end.
_TMA_SLACK = 2048
#: Tags travel in 16 bits.
REQUESTS_MAX = (1 << 16) - 1


def fence_cycles(spec: GpuSpec) -> int:
    """Cycles of a fence with GPU scope when nothing is outstanding: the way to the L2, a look there, and the way back.
    It asks all that lies between the SM and the L2 to be done, and waits for the answer. Measured alone on a B300,
    ``__threadfence()`` (with ERRBAR, CGAERRBAR and CCTL.IVALL behind the MEMBAR) takes 277 to 292 cycles, by other
    methods 258 to 320 (github.com/ademeure/ QuickRunCUDA, b300_clean/08_sync_primitives.md), as long as an L2 hit
    there, 295 (``b200.toml``); a fence of a block 9 to 16."""
    away_ns = spec.crossbar.request_latency_ns + spec.l2.hit_latency_ns + spec.crossbar.response_latency_ns
    return round(spec.cycles(away_ns))


def sm_timing(spec: GpuSpec) -> np.ndarray:
    """The launch-independent part of the vector (int64[TIMING_TABLE.width]); raises SpecError where it is
    impossible."""
    sm, l1 = spec.sm, spec.l1
    if sm.max_warps % sm.sub_cores:
        raise SpecError(f"{spec.name}: sm.max_warps = {sm.max_warps} does not divide by sm.sub_cores = {sm.sub_cores}")
    if sm.max_warps > MOST_WARPS * sm.sub_cores:
        raise SpecError(
            f"{spec.name}: sm.max_warps = {sm.max_warps} is more than {MOST_WARPS} for each of sm.sub_cores = "
            f"{sm.sub_cores}; give fewer warps or more sub-cores"
        )
    if l1.line_bytes != 128 or l1.sector_bytes != 32:
        raise SpecError(f"{spec.name}: l1.line_bytes and l1.sector_bytes must be 128 and 32")
    if l1.tag_banks not in (1, 2, 4, 8) or l1.bank_count & (l1.bank_count - 1) or l1.bank_bytes != 4:
        raise SpecError(f"{spec.name}: l1.tag_banks must be 1, 2, 4 or 8, l1.bank_count a power of 2, l1.bank_bytes 4")
    for key in ("fill_pass_bytes", "store_slot_bytes"):
        value = getattr(l1, key)
        if value not in (l1.sector_bytes, 2 * l1.sector_bytes, l1.line_bytes):
            raise SpecError(
                f"{spec.name}: l1.{key} = {value}; give one sector of a line ({l1.sector_bytes}), two ({2 * l1.sector_bytes}) or "
                f"all of it ({l1.line_bytes})"
            )
    stores = l1.store_entries * (l1.line_bytes // l1.sector_bytes)
    if l1.miss_entries + stores + spec.tma.request_entries + 2 * LINES_MAX + _TMA_SLACK > REQUESTS_MAX:
        raise SpecError(
            f"{spec.name}: l1.miss_entries, l1.store_entries and tma.request_entries leave no room for {REQUESTS_MAX} tags"
        )
    if not 1 <= spec.tensor.warpgroup_queue_entries <= MOST_QUEUED_PRODUCTS:
        raise SpecError(
            f"{spec.name}: tensor.warpgroup_queue_entries = {spec.tensor.warpgroup_queue_entries} is not between 1 and "
            f"{MOST_QUEUED_PRODUCTS}"
        )
    timing = TIMING_TABLE.zeros()
    timing[SUB_CORES] = sm.sub_cores
    timing[WARPS_PER_SUB_CORE] = sm.max_warps // sm.sub_cores
    timing[MAX_BLOCKS] = sm.max_blocks
    timing[QUEUE_ENTRIES] = l1.queue_entries + 1  # the latch behind the issue stage holds one more
    timing[ACCEPT_INTERVAL] = l1.accept_interval_cycles
    timing[HIT_LATENCY] = l1.hit_latency_cycles
    timing[SHARED_LATENCY] = l1.shared_latency_cycles
    timing[SHUFFLE_LATENCY] = l1.shuffle_latency_cycles
    timing[BARRIER_LATENCY] = l1.barrier_latency_cycles
    timing[OPERAND_READ] = l1.operand_read_cycles
    timing[CLUSTER_LATENCY] = l1.cluster_shared_latency_cycles
    timing[CLUSTER_SPREAD] = l1.cluster_shared_spread_cycles
    timing[CLUSTER_SECTOR_TICKS] = math.ceil(32 * TICKS_PER_CYCLE / l1.cluster_shared_bytes_per_cycle)
    timing[CLUSTER_BARRIER_LATENCY] = l1.cluster_barrier_latency_cycles
    timing[CLUSTER_SIZE] = 1
    timing[TAG_BANKS] = l1.tag_banks
    timing[DATA_BANKS] = l1.bank_count
    timing[CONFLICT_FREE] = not l1.bank_conflicts
    timing[ONE_LOOKUP] = not l1.tag_conflicts
    timing[L1_WAYS] = l1.ways
    timing[READ_LIMIT] = l1.miss_entries
    timing[WRITE_LIMIT] = l1.store_entries * (l1.line_bytes // l1.sector_bytes)
    timing[FILL_TICKS_PER_SECTOR] = math.ceil(l1.sector_bytes * TICKS_PER_CYCLE / l1.fill_bytes_per_cycle)
    timing[STORE_TICKS_PER_SECTOR] = math.ceil(l1.sector_bytes * TICKS_PER_CYCLE / l1.store_bytes_per_cycle)
    timing[REQUEST_LATENCY_TICKS] = request_latency_ticks(spec)
    # Latencies count from issue; those of a what-if may be shorter than the way to the LSU.
    shortest = min(l1.hit_latency_cycles // 2, l1.shared_latency_cycles, l1.shuffle_latency_cycles)
    timing[ADDRESS_LATENCY] = max(1, min(l1.address_latency_cycles, shortest - 1))
    timing[ADDRESS_INTERVAL] = l1.address_interval_cycles
    timing[WRITE_BACK_CYCLES] = math.ceil(l1.line_bytes / l1.write_back_bytes_per_cycle)
    timing[RETURN_CYCLES] = math.ceil(l1.line_bytes / l1.return_bytes_per_cycle)
    timing[TAG_LEAD] = l1.tag_lead_cycles
    timing[STORE_SLOT_SECTORS] = l1.store_slot_bytes // l1.sector_bytes
    timing[FILL_PASS_SECTORS] = l1.fill_pass_bytes // l1.sector_bytes
    tma = spec.tma
    timing[TMA_ENTRIES], timing[TMA_REQUESTS] = tma.queue_entries, tma.request_entries
    timing[TMA_SETUP], timing[TMA_MAP] = tma.setup_cycles, tma.map_cycles
    timing[TMA_FILL_TICKS] = math.ceil(
        l1.sector_bytes * TICKS_PER_CYCLE / (tma.fill_bytes_per_cycle or l1.fill_bytes_per_cycle)
    )
    timing[TMA_INTERVAL], timing[TMA_COMPLETION] = max(1, tma.request_interval_cycles), tma.completion_cycles
    core = spec.tensor_memory
    timing[TENSOR_COLUMN_TICKS] = round(TICKS_PER_CYCLE / core.columns_per_cycle) if core.columns_per_cycle else 0
    timing[TENSOR_SHARED_BYTES], timing[TENSOR_LATENCY] = max(1, core.shared_bytes_per_cycle), core.latency_cycles
    timing[TENSOR_PAIR_LATENCY] = core.pair_latency_cycles
    timing[PRODUCT_QUEUE] = spec.tensor.warpgroup_queue_entries
    timing[FENCE_LATENCY] = fence_cycles(spec)
    timing[CODE_L0_MISS] = spec.instruction_cache.l0_miss_cycles
    timing[CODE_L1_MISS] = spec.instruction_cache.l1_miss_cycles
    timing[CODE_L1_LINES] = spec.instruction_cache.l1_fetch_lines
    timing[CODE_L15_HIT] = spec.instruction_cache.l15_hit_cycles
    timing[CODE_L15_LINES] = spec.instruction_cache.l15_fetch_lines
    timing[CODE_L1_INTERVAL] = spec.instruction_cache.l1_interval_cycles
    timing[CODE_AHEAD] = spec.instruction_cache.buffer_entries
    timing[DECODE_CYCLES] = spec.instruction_cache.decode_cycles
    timing[CONSTANT_MISS] = spec.constant_cache.miss_cycles
    timing[SHARED_WINDOW] = timing[LOCAL_WINDOW] = -1
    return timing
