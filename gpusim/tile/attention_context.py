"""Attention of many query tokens a sequence under a causal mask (context), projected: blocks of queries, each with the
keys before it.

Mental model: a block takes a tile of queries of one head, or of the heads that share keys, and works through all keys
up to its last query. So blocks differ in work; the library gives the longest out first, and the GPU's places end nearly
together: the time is the mean load of a place, some of a longest block more, and never less than the longest block. How
the library works is in ``attention.toml``, all else is the GPU's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from gpusim.energy.power import limited_by_power, slowed_by_power
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention import SCORE_OPERATIONS, AttentionShape, project_attention
from gpusim.tile.attention_cache import cache_blocks_ns
from gpusim.tile.attention_figures import (
    EXPONENTIAL_CYCLES,
    WIDE_HEAD,
    ContextLibrary,
    cache_rows,
    context_library_of,
    framework_known,
    kernel_rows,
    odd_width,
)
from gpusim.tile.attention_tiles import TILES, Met, flash3_parts
from gpusim.tile.attention_waves import busy_cycles
from gpusim.tile.bands import context_band, operator_band
from gpusim.tile.described_attention import described_context, is_described
from gpusim.tile.library import FRAMEWORKS, kernels_of
from gpusim.tile.machine import OPERANDS, tile_machine
from gpusim.tile.projection import Projection
from gpusim.tile.reach import CONTEXT_SIZES, within_reach

_MOST_QUERIES = 1 << 22
_LARGEST = 1 << 31
#: Elements of a head that kernels are compiled for (FlashAttention), as far as rows show it: others are taken as the
#: next wider, heads above 128 as they are.
_HEAD_WIDTHS = (64, 96, 128)
_NARROW_WIDTH = 96
#: Query heads a key/value head for which FlashAttention 3 (vLLM's) brings a tile's queries and takes its results by the
#: tensor memory accelerator (hopper/flash_fwd_launch_template.h, PACK_GQA_BLOCK_SWITCH; which numbers is read off the
#: rows: H100's are 7 % faster with them, and with no others of 16 numbers of heads).
HEAD_BLOCKS = (4, 8, 16)
_SUM_BYTES = 4.0  # a partial result is kept in FP32
#: What an SM does beside a tile's products (shared memory's port, exponentials, sums) overlaps with them as far as such
#: a sum says: 1 not at all, infinite wholly. FlashAttention 2 as published reaches, of the peak at the clock that
#: boards hold, 0.95 on an RTX 4090 (2.7 GHz) with heads of 64 and of 128 elements (169 TFLOP/s, 2,048 keys: apache/tvm,
#: tl_doc/flash_perf.md, fork tilelang), and 0.50 to 0.73 on an A100 (Dao, FlashAttention-2 (2023), abstract), whose
#: tensor cores are four times as fast an SM: with 2, what the A100 takes beside its products makes 0.95 to 0.97 of the
#: RTX 4090's.
_OVERLAP_POWER = 2.0
#: The first capability that FlashAttention 2 runs on; what others launch in its place (xformers') reaches 0.6 to 0.8 of
#: its rate (Dao-AILab/flash-attention, issue 416), so that theirs keeps an A100's share.
_FLASH_CAPABILITY = (8, 0)
#: Frameworks whose contexts have kernels of their own whatever the number of queries.
_APART = ("trtllm",)


@dataclass(frozen=True)
class ContextShape:
    """``batch`` sequences of ``queries`` tokens, each of which meets itself and those before it; ``heads`` query heads
    share ``kv_heads`` of ``head_dim`` elements. ``prefix``: keys before the queries that each of them meets too (a
    chunk of a prompt); ``window``: only so many of the last keys count (0: all); ``chunked``: the window is not each
    query's own, queries meet those of their own chunk of ``window`` tokens (Llama 4); ``causal``: False where each
    query meets all keys; ``kv_dtype``: of the cache, where it is not the queries' ("");
    ``framework``: whose kernels (:data:`gpusim.tile.attention.FRAMEWORKS`). ``cached``: whether new keys and values go
    into a cache, as while serving; training and encoders have none."""

    batch: int
    queries: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str = "bf16"
    prefix: int = 0
    window: int = 0
    causal: bool = True
    kv_dtype: str = ""
    framework: str = FRAMEWORKS[0]
    chunked: bool = False
    cached: bool = True

    def __post_init__(self) -> None:
        if self.chunked and not (self.window and self.causal and not self.prefix):
            raise SpecError(
                f"a chunked attention has window {self.window}, prefix {self.prefix} and causal {self.causal}: give it the chunk's tokens as window, no prefix, and a causal mask"
            )
        for name, most in (("batch", _LARGEST), ("queries", _MOST_QUERIES), ("heads", _LARGEST), ("kv_heads", _LARGEST), ("head_dim", _LARGEST)):  # fmt: skip
            value = getattr(self, name)
            if not 1 <= value < most:
                raise SpecError(f"an attention's {name} is {value}, not between 1 and {most - 1}")
        if self.heads % self.kv_heads:
            raise SpecError(f"an attention's heads are {self.heads}, no multiple of its kv_heads, {self.kv_heads}")
        for name in ("prefix", "window"):
            if not 0 <= getattr(self, name) < _LARGEST:
                raise SpecError(f"an attention's {name} is {getattr(self, name)}, not between 0 and {_LARGEST - 1}")
        framework_known(self.framework)
        for dtype in (self.dtype, self.kv_dtype or self.dtype):
            if dtype not in OPERANDS:
                raise SpecError(f"an attention's dtype is {dtype!r}: known are {', '.join(OPERANDS)}")

    @property
    def kv_element_bytes(self) -> float:
        """Of an element of keys and values."""
        return OPERANDS[self.kv_dtype or self.dtype][0]

    @property
    def kv_bytes(self) -> float:
        """Of the new keys and values."""
        return 2.0 * self.kv_element_bytes * self.batch * self.kv_heads * self.queries * self.head_dim

    @property
    def prefix_bytes(self) -> float:
        """Of the keys and values before the queries, as far as a window reaches."""
        met = min(self.prefix, self.window or self.prefix)
        return self.kv_bytes * met / self.queries

    @property
    def query_bytes(self) -> float:
        """Of all queries and all results."""
        return 2.0 * OPERANDS[self.dtype][0] * self.batch * self.heads * self.queries * self.head_dim

    @property
    def scores(self) -> float:
        """Of one head of one sequence: pairs of a query and a key that the mask leaves."""
        if not self.causal:
            return float(self.queries) * (self.prefix + self.queries)
        if self.chunked:
            chunks, rest = divmod(self.queries, self.window)
            return (chunks * self.window * (self.window + 1.0) + rest * (rest + 1.0)) / 2.0
        first, last = self.prefix + 1, self.prefix + self.queries
        inside = last if not self.window else max(first - 1, min(last, self.window))
        return (first + inside) * (inside - first + 1) / 2.0 + float(last - inside) * self.window

    @property
    def flops(self) -> float:
        """Operations of both products that the mask leaves, a multiply-add counting two."""
        return 4.0 * self.batch * self.heads * self.scores * self.head_dim


def project_context(
    spec: GpuSpec, shape: ContextShape, library: ContextLibrary | None = None, limit_watts: float | None = None
) -> Projection:
    """Time of ``shape`` by a library's kernels on ``spec``, the new keys' and values' way into the cache included
    where there is one, the clock held to the board's power.
    ``library``: other figures than the generation's own; ``limit_watts``: another power limit than the board's
    (``inf``: none). Raises SpecError where the GPU has no such products or its generation's kernels are not known."""
    if (
        shape.causal and shape.queries == 1 and shape.framework not in _APART
    ):  # the library takes its kernels for generation
        one = AttentionShape(
            shape.batch, shape.prefix + 1, shape.heads, shape.kv_heads, shape.head_dim, shape.dtype, shape.window, shape.kv_dtype,
            framework=shape.framework,
        )  # fmt: skip
        return project_attention(spec, one, limit_watts=limit_watts)
    machine = tile_machine(spec, shape.dtype)
    rows = cache_rows(shape.kv_element_bytes, shape.head_dim, OPERANDS[shape.dtype][0])
    used = library or _library_for(spec, shape, rows)
    heads, packed = (shape.kv_heads, shape.heads // shape.kv_heads) if used.packs_heads else (shape.heads, 1)
    width = next((each for each in _HEAD_WIDTHS if shape.head_dim <= each), shape.head_dim)
    query_rows, kv_columns = _tile(used, width, shape)
    parts = _parts(used, shape, machine.sm_count, (packed, query_rows, kv_columns)) if used.splits_keys else 1
    each, skipped, masked, executed_scores = _steps(shape, packed, query_rows, kv_columns)
    tiles = len(each)
    # Queries, and one tile of keys and one of values, lie in shared memory.
    block_bytes = OPERANDS[shape.dtype][0] * width * (query_rows + 2 * kv_columns)
    blocks_per_sm = max(1, min(used.blocks_per_sm, int(spec.sm.shared_max_bytes // block_bytes)))
    executed = 4.0 * shape.batch * shape.heads * shape.head_dim * executed_scores
    # Of an SM that works on one block.
    step_cycles = query_rows * kv_columns * _cycles_a_score(spec, machine.flops_per_cycle, used, width)
    start_cycles = machine.cycles_of(used.start_cycles, used.clock_mhz)
    if packed in HEAD_BLOCKS:
        start_cycles *= used.head_block_start_share
        step_cycles *= used.head_block_step_share
    worked = np.repeat(-(-each // parts), parts)
    if used.skipped_step_share or (shape.window and used.masked_step_share):
        more = used.skipped_step_share * skipped + used.masked_step_share * masked * (shape.window > 0)
        worked = worked + np.repeat(more / parts, parts)
    blocks = worked, shape.batch * heads
    cycles = _worked(machine.sm_count, blocks_per_sm, blocks, heads, start_cycles, step_cycles, used)
    # Keys of the prefix are loaded ahead while others are worked on; what is written into the cache and copied around
    # the kernel is not.
    prefix_cycles = shape.prefix_bytes / machine.dram_bytes_per_cycle
    cycles = max(cycles, prefix_cycles)
    dram_bytes = (
        used.kv_passes * shape.kv_bytes * shape.cached + used.head_passes * shape.query_bytes + shape.prefix_bytes
    )
    dram_cycles = dram_bytes / machine.dram_bytes_per_cycle - prefix_cycles
    l2_bytes = shape.query_bytes + shape.kv_bytes * max(1, tiles // 2)
    cache_ns = cache_blocks_ns(spec, used.cache_block_ns, shape.batch * shape.queries, shape.kv_heads, shape.head_dim)
    cycles += 1e-9 * cache_ns * machine.clock_hz * shape.cached
    if parts > 1:
        # Parts of FP32 are written and read, by a second kernel.
        parts_bytes = _SUM_BYTES * parts * shape.batch * shape.heads * shape.queries * shape.head_dim
        cycles += used.combine_cycles + 2.0 * parts_bytes / machine.l2_bytes_per_cycle
        l2_bytes += 2.0 * parts_bytes
    unlimited_seconds = (cycles + dram_cycles) / machine.clock_hz
    seconds = slowed_by_power(spec, limit_watts, unlimited_seconds, shape.dtype, shape.flops, dram_bytes, l2_bytes)
    arithmetic = shape.flops / machine.flops_per_cycle / machine.sm_count
    limiter = "tensor cores" if arithmetic > (cycles + dram_cycles) / 4 else "latency"
    if dram_cycles > cycles:
        limiter = "DRAM"
    beside_ns = used.padding_ns * (width != shape.head_dim) + used.odd_width_ns * odd_width(shape.head_dim)
    launch_seconds = (used.launch_ns + beside_ns) * 1e-9
    if launch_seconds > seconds:
        limiter = "launch"
    elif limited_by_power(seconds, unlimited_seconds):
        limiter = "power"
    seconds += launch_seconds
    windowed = 0 < shape.window < shape.prefix + shape.queries
    band = context_band(
        kernels_of(spec), shape.kv_dtype or shape.dtype, shape.queries, windowed, shape.framework, shape.dtype
    )
    if not shape.causal and not shape.window:
        band = operator_band("encoder", kernels_of(spec), shape.queries)
    band = within_reach(
        band, "context", "attention", CONTEXT_SIZES, shape.batch, shape.queries, shape.heads, shape.head_dim
    )
    if shape.prefix and band.validated:
        band = replace(band, validated=False, reason="not validated: nothing was compared with a prefix")
    return Projection(
        operator=_title(shape),
        gpu=spec.name, seconds=seconds, low_seconds=seconds / band.factor, high_seconds=seconds * band.factor,
        validated=band.validated, reason=band.reason, limiter=limiter, dtype=shape.dtype, flops=shape.flops, executed_flops=executed,
        dram_bytes=dram_bytes, l2_bytes=l2_bytes, started_blocks=float(shape.batch * heads * tiles * parts), launches=2,
        vector_flops=SCORE_OPERATIONS * executed / (4.0 * shape.head_dim),
    )  # fmt: skip


def _cycles_a_score(spec: GpuSpec, flops_per_cycle: float, used: ContextLibrary, width: int) -> float:
    """Of an SM for each score of a tile: both products over heads of ``width`` elements, and what an SM does beside
    them, which takes as many cycles whatever its tensor cores' rate."""
    beside_cycles = used.score_cycles * spec.pipes["mufu"].interval_cycles / EXPONENTIAL_CYCLES
    flops = 4.0 * width
    slower = flops_per_cycle < used.fed_flops_per_cycle and spec.capability >= _FLASH_CAPABILITY
    if not slower:
        return flops / (flops_per_cycle * used.rate) + beside_cycles
    there_cycles = flops / used.fed_flops_per_cycle
    apart = (there_cycles / used.rate) ** _OVERLAP_POWER - there_cycles**_OVERLAP_POWER
    return ((flops / flops_per_cycle) ** _OVERLAP_POWER + apart) ** (1.0 / _OVERLAP_POWER) + beside_cycles


def _tile(used: ContextLibrary, width: int, shape: ContextShape) -> tuple[int, int]:
    """Queries and keys of a tile of heads of ``width`` elements."""
    rule, sliding = TILES[used.tiles], bool(shape.window) and not shape.chunked
    if rule:
        # Without a mask, as of an encoder, there is no cache, and so there are no pages.
        return rule(Met(width, shape.kv_element_bytes, shape.causal and not sliding, sliding, shape.causal))
    columns = used.narrow_kv_columns if width <= _HEAD_WIDTHS[0] else used.kv_columns
    if width <= _NARROW_WIDTH:
        return used.narrow_query_rows, columns
    return (used.wide_query_rows, used.wide_kv_columns) if width > WIDE_HEAD else (used.query_rows, columns)


def _parts(used: ContextLibrary, shape: ContextShape, sms: int, tile: tuple[int, int, int]) -> int:
    """Of the keys, where they are split; ``tile``: heads, queries and keys in one."""
    packed, query_rows, kv_columns = tile
    if shape.chunked and shape.queries > shape.window:
        # A chunk is a sequence of its own (SGLang, make_local_attention_virtual_batches).
        chunks = -(-shape.queries // shape.window)
        one = replace(shape, batch=shape.batch * chunks, queries=shape.window, window=0, chunked=False)
        return _parts(used, one, sms, tile)
    keys = shape.prefix + shape.queries
    met = min(keys, shape.window + 1 + query_rows) if shape.window else keys
    query_tiles = -(-shape.queries * packed // query_rows)
    return flash3_parts(shape.batch, shape.kv_heads, query_tiles, -(-keys // kv_columns), -(-met // kv_columns), sms)


def _library_for(spec: GpuSpec, shape: ContextShape, rows: tuple[str, ...]) -> ContextLibrary:
    if shape.causal and is_described(spec, shape.framework, shape.dtype, shape.kv_dtype or shape.dtype):
        return described_context(spec)
    rows = kernel_rows(rows, shape.framework, shape.window, shape.head_dim)
    return context_library_of(kernels_of(spec), shape.causal, shape.framework, rows)


def _worked(
    sms: int, blocks_per_sm: int, blocks: tuple[np.ndarray, int], heads: int, start_cycles: float, step_cycles: float,
    used: ContextLibrary,
) -> float:  # fmt: skip
    """Until all ``blocks`` (steps of each of one head, and of how many heads of all sequences) are done."""
    each, copies = blocks
    count, places = copies * len(each), sms * blocks_per_sm
    # Blocks go to SMs whose TPC's other SM is idle first; those beyond are in each other's way.
    beside = min(1.0, max(0.0, 2.0 * count / sms - 1.0))
    step_cycles *= used.alone_step_share + (1.0 - used.alone_step_share) * beside
    sharing = min(blocks_per_sm, -(-count // sms))
    if used.blocks_stay:
        later_cycles = used.later_start_share * start_cycles
        return busy_cycles(each, heads, copies // heads, places, start_cycles, later_cycles, step_cycles * sharing)
    longest_cycles = start_cycles + float(each.max()) * step_cycles * sharing
    load = copies * float(each.sum()) * step_cycles / sms + count * start_cycles / places
    tail = used.tail * longest_cycles * places / count if count > places else 0.0
    return max(load + tail, longest_cycles, -(-count // places) * start_cycles)


@functools.lru_cache(1 << 16)
def _steps(
    shape: ContextShape, packed: int, query_rows: int, kv_columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Steps of each tile of one head's queries (``packed`` heads in one), tiles of keys before them that a window
    leaves out, those that a mask takes keys from, and of one head the scores that are worked out: each query with all
    keys of the tiles of keys that its tile of queries meets, those that the mask takes away included."""
    if shape.chunked:
        counts = [shape.window] * (shape.queries // shape.window) + [shape.queries % shape.window]
        each = [
            _steps(replace(shape, queries=count, window=0, chunked=False), packed, query_rows, kv_columns)
            for count in counts
            if count
        ]
        steps, skipped, masked = (np.concatenate([chunk[at] for chunk in each]) for at in range(3))
        return steps, skipped, masked, sum(chunk[3] for chunk in each)
    rows = shape.queries * packed
    tiles = -(-rows // query_rows)
    place = np.arange(tiles, dtype=np.int64)
    end = np.minimum((place + 1) * query_rows, rows)
    last = (end + packed - 1) // packed + shape.prefix
    if not shape.causal:
        last = np.full(tiles, shape.prefix + shape.queries)
    first = np.zeros(tiles, np.int64)
    if shape.window:
        first = np.maximum(0, place * query_rows // packed + shape.prefix + 1 - shape.window)
    begin, behind = first // kv_columns, (last + kv_columns - 1) // kv_columns
    met = np.minimum(behind * kv_columns, shape.prefix + shape.queries) - begin * kv_columns
    scores = float(((end - place * query_rows) / packed * met).sum())
    whole = last // kv_columns
    if shape.causal:
        seen = place * query_rows // packed + shape.prefix + 1
        whole = seen // kv_columns - (np.maximum(0, last - shape.window) + kv_columns - 1) // kv_columns * (
            shape.window > 0
        )
    masked = behind - begin - np.clip(whole, 0, behind - begin)
    return behind - begin, begin, masked, scores


def _title(shape: ContextShape) -> str:
    prefix = f" after {shape.prefix}" if shape.prefix else ""
    window = f", {'chunk' if shape.chunked else 'window'} {shape.window}" if shape.window else ""
    return (
        f"{'causal ' * shape.causal}attention of {shape.batch} x {shape.queries} queries{prefix}, {shape.heads} heads on {shape.kv_heads} of "
        f"{shape.head_dim}{window}"
    )
