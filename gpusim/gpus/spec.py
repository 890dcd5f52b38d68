"""A GPU as frozen values: what the engine may know of a machine, and nothing else.

Mental model: a :class:`GpuSpec` is a parts list with sizes, rates and latencies. Every field's name
ends in its unit. SM-side latencies are in SM cycles; what lives in another clock domain (crossbar,
L2, DRAM) is in nanoseconds, so that a change of the SM clock moves the two against each other as
on silicon. A variant is a new value (:func:`dataclasses.replace`), never a mutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Execution-unit classes that a GPU file must map to a pipe (the trace's pipe classes, lower case).
PIPE_NAMES = (
    "none",
    "alu",
    "fma",
    "imad",
    "imad_wide",
    "half",
    "fp64",
    "mufu",
    "convert",
    "uniform",
    "branch",
    "tensor",
    "vote",
    "shuffle",
    "special",
    "constant",
    "lsu",
    "barrier",
    "tma",
    "tensor_memory",
    "reduce",
    "convert_wide",
    "bfloat",
    "alu_lite",
    "half_mma",
    "half_single",
    "fma_pairs",
    "viadd",
)


@dataclass(frozen=True)
class PipeSpec:
    """An execution pipe of a sub-core: a warp instruction occupies its port ``interval_cycles`` (32 / lanes) and its
    result is readable ``latency_cycles`` after issue. ``shared_by_sm``: one unit serves all four sub-cores.
    ``entrance_cycles``: from its issue on no arithmetic of the sub-core issues for so long, whatever its pipe (0 and 1:
    the next cycle's may). ``own_unit``: of a class that a generation tells apart, whether it has another unit than the
    class that it was part of (``alu_lite``, ``half_mma``, ``viadd``). ``fewer_registers_cycles``: how much longer an
    instruction keeps the port of which fewer than three operands are registers (an addition, one with a constant)."""

    interval_cycles: int
    latency_cycles: int
    shared_by_sm: bool = False
    entrance_cycles: int = 0
    own_unit: bool = False
    fewer_registers_cycles: int = 0


@dataclass(frozen=True)
class TensorSpec:
    """What one sub-core's tensor core does with warp-wide products (mma.sync), by what it multiplies.

    ``*_macs_per_cycle``: multiply-adds a cycle, 0 where it has no such product (f16: half or bfloat16 into FP32;
    f16_f16: into half; scaled_fp8, fp4: with scales for blocks). A product keeps the core for its rows x columns x
    depth over that rate. Its result is readable ``latency_cycles`` after issue if each row of A is 128 bits long
    (m16n8k8 of halves), and ``step_latency_cycles`` later for each further 128 bits; an FP64 product's after
    ``f64_latency_cycles``. Where the compiler schedules by stall counts, those decide and the latencies are not looked
    at.

    ``warpgroup_*_macs_per_cycle``: the same of a sub-core's part of a warp group's product (wgmma), of which the result
    is readable ``warpgroup_latency_cycles`` after its multiply-adds, had they begun with it and gone on at that rate.
    The core keeps ``warpgroup_queue_entries`` of a warp (1 to 16), with the one that it works on, and takes all warps'
    in the order of their issue; whoever has so many there does not issue another one."""

    latency_cycles: int
    step_latency_cycles: int
    f16_macs_per_cycle: float
    f16_f16_macs_per_cycle: float
    int8_macs_per_cycle: float
    f64_latency_cycles: int = 0
    tf32_macs_per_cycle: float = 0.0
    f64_macs_per_cycle: float = 0.0
    int4_macs_per_cycle: float = 0.0
    bit_macs_per_cycle: float = 0.0
    fp8_macs_per_cycle: float = 0.0
    fp8_f16_macs_per_cycle: float = 0.0
    scaled_fp8_macs_per_cycle: float = 0.0
    fp4_macs_per_cycle: float = 0.0
    warpgroup_f16_macs_per_cycle: float = 0.0
    warpgroup_f16_f16_macs_per_cycle: float = 0.0
    warpgroup_tf32_macs_per_cycle: float = 0.0
    warpgroup_int8_macs_per_cycle: float = 0.0
    warpgroup_bit_macs_per_cycle: float = 0.0
    warpgroup_fp8_macs_per_cycle: float = 0.0
    warpgroup_fp8_f16_macs_per_cycle: float = 0.0
    warpgroup_latency_cycles: int = 0
    warpgroup_queue_entries: int = 1


@dataclass(frozen=True)
class SmSpec:
    """What an SM holds, which decides how many blocks are resident on it (occupancy)."""

    sub_cores: int  # partitions of an SM, each with a warp scheduler
    max_warps: int  # resident warps per SM
    max_blocks: int  # resident blocks per SM
    max_threads_per_block: int
    registers: int  # 32-bit registers per SM
    max_registers_per_thread: int
    register_allocation_unit: int  # registers a warp's allocation is rounded up to
    shared_max_bytes: int  # per SM, largest carve-out
    shared_per_block_max_bytes: int  # opt-in limit
    shared_reserved_bytes: int  # per block, taken by the system (1024 since sm_80)
    shared_allocation_unit_bytes: int  # shared memory that a block's allocation is rounded up to
    shared_carveouts_kib: tuple[int, ...]  # legal carve-outs, ascending
    shared_carveout_reserved_bytes: int = 0  # per block, that the driver counts when it picks the carve-out


@dataclass(frozen=True)
class InstructionCacheSpec:
    """Fetch path: L0 of each sub-core with ``streams`` stream buffers of ``stream_entries`` lines each, L1 of the SM
    (ICC in Nsight Compute), L1.5 behind it (GCC, which SMs share), then L2.

    ``l0_miss_cycles``: what a line that the L1 holds takes to the sub-core, ``l15_hit_cycles`` one that only the L1.5
    holds, with which the L1 is given the next ones up to ``l1_fetch_lines``, ``l1_miss_cycles`` one that comes from L2,
    ``l15_fetch_lines`` together; the L1 answers one request each ``l1_interval_cycles``. ``buffer_entries``:
    instructions that a warp has fetched ahead of its issue; ``decode_cycles``: fetched to ready for issue."""

    l0_bytes: int
    l1_bytes: int
    l0_miss_cycles: int
    l1_miss_cycles: int
    line_bytes: int
    l0_ways: int
    l1_ways: int
    l1_interval_cycles: int
    stream_entries: int
    buffer_entries: int
    decode_cycles: int
    streams: int = 4
    l15_bytes: int = 131072
    l15_ways: int = 4
    l15_hit_cycles: int = 27
    l1_fetch_lines: int = 3
    l15_fetch_lines: int = 8


@dataclass(frozen=True)
class ConstantCacheSpec:
    """The two small constant caches of a sub-core, one for operands of fixed-latency instructions and one for constant
    loads, ``bytes`` each. A line that is not there comes ``miss_cycles`` later, from the cache that all constants fit
    in.
    ``immediate_latency_cycles``: a constant load whose place the instruction names (LDC of a parameter), issue to
    dependent issue; where a register gives the place, ``l1.constant_latency_cycles``."""

    bytes: int
    line_bytes: int
    ways: int
    miss_cycles: int
    immediate_latency_cycles: int


@dataclass(frozen=True)
class RegisterFileSpec:
    """Two banks a sub-core, by register number, each with ``reads_per_bank`` 1024-bit reads a cycle. ``bank_conflicts``
    is true of every GPU; a what-if may set it false, and operands never wait. ``product_write_cycles``: by how much the
    accumulators of a warp group's product (wgmma), of which one register a cycle is written back, are late for each
    register that another instruction of the sub-core writes meanwhile (0: not at all)."""

    reads_per_bank: int
    bank_conflicts: bool = True
    product_write_cycles: float = 0.0


@dataclass(frozen=True)
class L1Spec:
    """The SM's unified L1/shared memory and the memory-IO path in front of it.

    ``queue_entries``: memory instructions a sub-core may have waiting; ``accept_interval_cycles``: the shared back end
    takes one request each so many cycles, a sub-core's first one ``address_latency_cycles`` after its issue and each
    further one ``address_interval_cycles`` later, or, ahead of the back end, when their registers (addresses and data)
    are collected, one each ``operand_interval_cycles``; ``hit_latency_cycles``: LDG.64 issue to dependent issue, one
    warp, one sector (words more or fewer change it by what it takes to write them to the registers,
    ``write_back_bytes_per_cycle``); ``shared_latency_cycles``: the same for LDS; ``tag_banks``: 128-byte lines looked
    up a cycle; ``bank_count`` x ``bank_bytes`` a cycle from data, whose passes may fall ``tag_lead_cycles`` behind the
    lookups before the back end takes no more. ``miss_entries``: outstanding 128-byte line requests of loads that an SM
    can hold; ``store_entries``: the same for writes, of which one takes as much of an entry as it writes sectors of the
    line. ``bank_conflicts`` is true of every GPU; a what-if may set it false, and every access but an atomic takes the
    least passes over the banks that its bytes need. ``tag_conflicts`` likewise: false, and all lines of an access are
    looked up in one cycle. ``cluster_shared_latency_cycles``: ``shared_latency_cycles`` of the shared memory of another
    block of the cluster, on another SM, on average over pairs of SMs; each of the two adds its own way to the middle of
    the network, and the ways of the SMs differ by up to ``cluster_shared_spread_cycles``.
    ``cluster_shared_bytes_per_cycle``: what an SM's port to that network carries, each way: data that its loads bring,
    and what it writes there. ``cluster_barrier_latency_cycles``: the last thread's arrival at the barrier of a cluster
    to the first issue behind it. ``reserved_bytes`` of what the shared carve-out leaves hold no lines (at most half of
    it). ``return_bytes_per_cycle``: of the way between the data banks and the registers. A pass takes it for 128 bytes;
    those that bank conflicts add take it too where lines of global memory conflict, of shared memory not.
    ``fill_pass_bytes``: what one pass over the data banks writes of lines that come from L2 (32, 64 or 128; sectors of
    any lines share a pass); accesses of the LSU wait for these passes, but for those that bank conflicts add.
    ``store_slot_bytes``: a store takes the output port for each line that it writes as long as so many bytes of it at
    least (128: as long as a whole line; 32: as long as its sectors).
    """

    total_bytes: int
    line_bytes: int
    sector_bytes: int
    ways: int
    queue_entries: int
    accept_interval_cycles: int
    hit_latency_cycles: int
    shared_latency_cycles: int
    constant_latency_cycles: int
    shuffle_latency_cycles: int
    barrier_latency_cycles: int
    operand_read_cycles: int  # issue to release of the read barrier
    tag_banks: int
    bank_count: int
    bank_bytes: int
    miss_entries: int
    fill_bytes_per_cycle: int  # SM input port of the crossbar
    store_bytes_per_cycle: int  # SM output port of the crossbar
    store_entries: int = 64  # writes and reductions of an SM that may be unacknowledged, in lines of four sectors
    cluster_shared_latency_cycles: int = 190
    cluster_shared_spread_cycles: int = 0
    cluster_shared_bytes_per_cycle: int = 16
    cluster_barrier_latency_cycles: int = 190
    bank_conflicts: bool = True
    reserved_bytes: int = 0
    tag_conflicts: bool = True
    address_latency_cycles: int = 11
    address_interval_cycles: int = 1
    operand_interval_cycles: int = 0
    write_back_bytes_per_cycle: int = 64
    tag_lead_cycles: int = 2
    fill_pass_bytes: int = 64
    return_bytes_per_cycle: int = 128
    store_slot_bytes: int = 128


@dataclass(frozen=True)
class TmaSpec:
    """The SM's tensor memory accelerator, which moves boxes between shared and global memory: none where
    ``queue_entries`` is 0.

    It keeps up to ``queue_entries`` bulk instructions and serves them in order. The first request of one leaves
    ``setup_cycles`` after its issue, ``map_cycles`` later if a tensor map says what to move; then it makes one request,
    of a row's part in a 128-byte line, each ``request_interval_cycles``, while fewer than ``request_entries`` are
    unanswered. ``completion_cycles`` after its last data have come in, or its last write is acknowledged, its mbarrier
    or its group is told. Its data take the SM's input port at ``fill_bytes_per_cycle``, that of other loads where 0."""

    queue_entries: int = 0
    fill_bytes_per_cycle: int = 0
    request_entries: int = 512
    setup_cycles: int = 30
    map_cycles: int = 60
    request_interval_cycles: int = 2
    completion_cycles: int = 33


#: Of a product on tensor memory: rows, and bytes of a row of A that a column takes.
TENSOR_ROWS, TENSOR_ROW_BYTES = 128, 32


@dataclass(frozen=True)
class TensorMemorySpec:
    """The SM's tensor core as it works on tensor memory (tcgen05): none where ``columns_per_cycle`` is 0.

    A product keeps it for its columns over ``columns_per_cycle`` (of up to 128 rows and 32 bytes of a row of A), or for
    as long as its operands in shared memory take at ``shared_bytes_per_cycle``; it is done ``latency_cycles`` later,
    that of a pair of blocks ``pair_latency_cycles`` more."""

    columns_per_cycle: float = 0.0
    shared_bytes_per_cycle: int = 128
    latency_cycles: int = 0
    pair_latency_cycles: int = 0


@dataclass(frozen=True)
class CrossbarSpec:
    """One-way times between an SM and an L2 slice of its own partition, unloaded. ``sms_per_gpc``: of the largest group
    of SMs (GPC), in which a cluster lies and which has a way of its own to L2; 0: nothing goes by groups.
    ``merges_reads``: of reads of one line that are under way for SMs of a group, L2 is asked once. ``sm_spread_ns``,
    ``slice_spread_ns``: by which the round trip of the farthest SM, or slice, takes longer than that of the nearest; SM
    0 has the mean."""

    request_latency_ns: float
    response_latency_ns: float
    sms_per_gpc: int = 0
    merges_reads: bool = False
    sm_spread_ns: float = 0.0
    slice_spread_ns: float = 0.0


@dataclass(frozen=True)
class TlbSpec:
    """Translation of addresses on the way from an SM to L2: each SM remembers ``entries`` pages of
    ``page_bytes``, ``ways`` a set; a request to another page comes ``miss_ns`` later, and delays no other."""

    entries: int
    ways: int
    page_bytes: int
    miss_ns: float


@dataclass(frozen=True)
class L2Spec:
    """``partitions`` halves of ``slices`` / partitions slices each. Each half caches what its own
    SMs access; a line's home half owns the DRAM channel behind it. The halves take turns at pieces of
    ``partition_piece_bytes``. ``hit_latency_ns`` is the time inside the near slice; ``far_hit_extra_ns`` /
    ``far_miss_extra_ns`` add for a line whose home is the other half. ``fetch_bytes``: what a missing sector brings
    along from DRAM (an aligned group of that size). ``tag_interval_ns``: a slice looks up one request each so many ns.
    At most ``dirty_share`` of a set's ways hold what is newer than DRAM: a write beyond that first sends the least
    recently used of them to DRAM, whose line stays. ``memset_writes_through``: behind a memset of L2's size the lines
    written first are yet to be written back, and nothing from before is left."""

    partitions: int
    slices: int
    total_bytes: int
    ways: int
    hit_latency_ns: float
    far_hit_extra_ns: float
    far_miss_extra_ns: float
    slice_bytes_per_ns: float  # read bandwidth of one slice
    slice_write_bytes_per_ns: float
    partition_link_bytes_per_ns: float  # between the halves, each way, of all slices together
    atomic_interval_ns: float  # an atomic unit, each lane on a word of a request of one sector; else each further one
    atomic_sector_ns: float  # an atomic unit, each sector of a request of several
    line_bytes: int = 128
    sector_bytes: int = 32
    fetch_bytes: int = 64
    tag_interval_ns: float = 0.5
    partition_piece_bytes: int = 4096
    #: Cycles of the SMs' clock from a floating-point add (atomic or reduction) to the next one on the same word. Nsight
    #: Compute at base clocks: 8 Mi and 160 Ki single-precision adds to one word on an A10 take 3.05 and 3.07 each (885
    #: MHz; traces/external/exercises_a10.csv, learning half), 32 Mi of pairs of halves on an A100 3.12 (765 MHz;
    #: reductions_a100.csv). On other GPUs a guess.
    atomic_float_cycles: float = 3.1
    #: Sums of two vectors behind do_bench's flush on V100, T4, A100 80 GB and H20 (tutorial_sums, gems_h20): around
    #: L2's size they cost 20 to 50 % less than if all were dirty, far above it what they cost at any size.
    dirty_share: float = 0.5
    memset_writes_through: bool = False


@dataclass(frozen=True)
class DramSpec:
    """``channels`` independent channels; ``miss_latency_ns`` is L2 miss to data back at the slice, unloaded, for a bank
    that must first change its row (a row that is already open answers ``row_miss_extra_ns`` earlier); ``efficiency`` is
    the reachable share of the pin rate, what refresh and command overheads leave, and ``read_efficiency`` the same of
    reads alone as library kernels make them, where that is known apart (0: as ``efficiency``; only projections take
    it); of both, ``codes_share`` is what error codes take that lie in line, among the data, as the board is delivered
    (0: none, or they are switched off, or a part of ``efficiency``). Not ``streams_with_codes``: the board on which the
    description's streams were measured had them switched off, and the exact level leaves them out; projections are of
    boards as they are delivered. ``row_cycle_ns``: one bank opens a row at most once each so many ns. Writes wait in a
    channel until ``write_high_entries`` of them are drained at one go, down to ``write_low_entries``, each change of
    direction costing the turnaround; with no read waiting, a write older than ``write_hold_ns`` goes too. While reads
    wait, a channel keeps a direction for ``turn_entries`` requests: writes go no further at one go, and reads at least
    as far (0: writes go on while there are enough of them). At most ``write_queue_entries`` evicted lines a channel are
    under way; beyond that L2 slices wait before they evict another dirty line. So many rows of a half,
    ``scattered_rows``, change places with one another (1: none does): what streams ask for at once then loads channels
    and banks unevenly. A row is here what one slice's channels hold in a row each. Each bank is refreshed once a
    ``refresh_interval_ns`` and keeps requests waiting for ``refresh_ns`` then (0: it does not), each bank at a time of
    its own. ``masked_writes``: a sector of which bytes are missing when L2 evicts it is written with a mask; else L2
    reads them first, as an error code over the sector needs (JESD235: HBM's mask pins carry either the mask or the
    code)."""

    total_bytes: int
    channels: int
    banks_per_channel: int
    row_bytes: int
    peak_bytes_per_ns: float
    efficiency: float
    miss_latency_ns: float
    row_miss_extra_ns: float
    read_write_turnaround_ns: float
    row_cycle_ns: float = 45.0
    write_high_entries: int = 32
    write_low_entries: int = 8
    write_queue_entries: int = 64
    write_hold_ns: float = 300.0
    turn_entries: int = 0
    scattered_rows: int = 1
    read_efficiency: float = 0.0
    refresh_interval_ns: float = 3900.0
    refresh_ns: float = 0.0
    masked_writes: bool = False
    codes_share: float = 0.0
    streams_with_codes: bool = True

    @property
    def stream_bytes_per_ns(self) -> float:
        """That streams reach at the exact level."""
        return self.peak_bytes_per_ns * self.efficiency * (1.0 - self.codes_share * self.streams_with_codes)

    @property
    def moves_codes(self) -> bool:
        """Whether error codes move in line at the exact level: besides their share of every stream, which a code has
        that covers several lines in a row, each row that is opened costs a sector of them if it is read and two if it
        is written, since codes are read before a part of what they cover changes. A transpose by tiles on a T4 (codes)
        is 15 % too fast without that and 4 to 5 % too slow with it, on an RTX 2080 Ti (the same DRAM, no codes) 3 % off
        at most; traces/external/teaching_t4.csv, patterns_rtx2080ti.csv."""
        return self.codes_share > 0 and self.streams_with_codes

    @property
    def read_bytes_per_ns(self) -> float:
        """That reads alone reach, as library kernels make them, on a board as it is delivered."""
        return self.peak_bytes_per_ns * (self.read_efficiency or self.efficiency) * (1.0 - self.codes_share)


@dataclass(frozen=True)
class LaunchSpec:
    """``start_cycles``: launch to the first block's first issue; ``end_cycles``: last exit to the
    kernel's end; ``dispatch_interval_cycles``: the dispatcher starts one block each so many cycles,
    and the launch's first one on an SM takes it ``first_dispatch_interval_cycles``;
    ``block_turnaround_cycles``: a block's end, with its last store's leaving the SM, to its successor's first issue
    there."""

    start_cycles: int
    end_cycles: int
    dispatch_interval_cycles: int
    block_turnaround_cycles: int
    first_dispatch_interval_cycles: int = 1


@dataclass(frozen=True)
class NodeSpec:
    """What connects a GPU to others: a port to its node's switch, a network card to other nodes. A node has ``gpus`` of
    them; ``link_bytes_per_ns`` and ``network_bytes_per_ns`` are one way, the latencies from a store's leaving to its
    arrival; a packet takes ``packet_overhead_bytes`` beside its data. NCCL lays ``channels`` rings and reckons with
    ``ring_bytes_per_ns`` on them; ``switch_sums``: the switch adds up (NVLS). Launches of one GPU do not show any of
    it. The defaults are a card's on 16 lanes of PCIe 4."""

    gpus: int = 8
    link_bytes_per_ns: float = 32.0
    link_latency_ns: float = 500.0
    packet_overhead_bytes: float = 28.0
    channels: int = 2
    ring_bytes_per_ns: float = 20.0
    switch_sums: bool = False
    network_bytes_per_ns: float = 25.0
    network_latency_ns: float = 5000.0


@dataclass(frozen=True)
class BoardSpec:
    """What the GPU is mounted on: it may take ``power_limit_watts`` (0: not known), as its datasheet has it
    (configurable up to), and takes ``resting_watts`` with its clocks up and nothing to do (0: not known, as its
    generation's figures say by its SMs)."""

    power_limit_watts: float = 0.0
    resting_watts: float = 0.0


@dataclass(frozen=True)
class GpuSpec:
    """A described GPU: all values of its TOML file (docs/reference/gpu-file.md), checked and frozen. Made by
    ``dataclasses.replace`` it is taken as it is: what the engine cannot run raises SpecError there."""

    name: str
    title: str  # the GPU's name in words
    generation: str  # of the architecture, in lower case, such as hopper
    capability: tuple[int, int]  # compute capability
    clock_hz: float  # SM clock at which the figures hold
    sm_count: int  # SMs that are enabled
    sm: SmSpec
    pipes: dict[str, PipeSpec]  # PipeClass name in lower case -> pipe
    tensor: TensorSpec
    instruction_cache: InstructionCacheSpec
    constant_cache: ConstantCacheSpec
    register_file: RegisterFileSpec
    l1: L1Spec
    crossbar: CrossbarSpec
    tlb: TlbSpec
    l2: L2Spec
    dram: DramSpec
    launch: LaunchSpec
    tma: TmaSpec = TmaSpec()
    tensor_memory: TensorMemorySpec = TensorMemorySpec()
    node: NodeSpec = NodeSpec()
    board: BoardSpec = BoardSpec()

    def cycles(self, time_ns: float) -> float:
        """SM cycles in ``time_ns`` nanoseconds at this GPU's SM clock."""
        return time_ns * self.clock_hz / 1e9

    def ns(self, cycles: float) -> float:
        """Nanoseconds that ``cycles`` SM cycles take."""
        return cycles * 1e9 / self.clock_hz


def value_of(spec: GpuSpec, key: str) -> Any:
    """What a GPU has by a GPU file's dotted key (``pipes.fma.interval_cycles``)."""
    value: Any = spec
    for part in key.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value
