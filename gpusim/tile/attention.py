"""Attention of one query token a sequence (generation), projected: keys and values are read once, by blocks that share
them out.

Mental model: a block takes one key/value head of one sequence with the query heads that share it, and reads its keys
and values a step at a time. Where there are fewer such blocks than places on the GPU, the library splits the keys into
parts, and adds the parts up in a second kernel. Blocks run in waves; the whole is no faster than DRAM and L2 deliver
the bytes. How the library works is in ``attention.toml``, all else is the GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.energy.power import limited_by_power, slowed_beside_dram
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention_figures import (
    ENGINES_OF_THEN,
    AttentionLibrary,
    attention_library_of,
    cache_rows,
    each_head_rows,
    framework_known,
    kernel_rows,
    odd_width,
)
from gpusim.tile.attention_overlap import overlapped
from gpusim.tile.attention_split import RULES, XQA, Keys, asked_parts, takes_xqa
from gpusim.tile.bands import attention_band
from gpusim.tile.described_attention import described_attention, is_described
from gpusim.tile.library import FRAMEWORKS, kernels_of, library_of
from gpusim.tile.machine import OPERANDS, tile_machine
from gpusim.tile.projection import Projection
from gpusim.tile.reach import ATTENTION_SIZES, within_reach

_LARGEST = 1 << 31
_E4M3 = "fp8"
_LEAST_TILE_ROWS = 8
#: Operations outside the tensor cores for each score: scale and shift, exponential, maximum, sum, conversion.
SCORE_OPERATIONS = 6.0
#: Heads that a block of FlashAttention 3's second kernel takes together (hopper/flash_fwd_combine_launch_template.h,
#: kBlockM).
_COMBINE_ROWS = 8
#: Of the DRAM's peak, the most that reads reach: an H100's (attention.toml, dram_share, times what its description
#: has).
_MOST_OF_PEAK = 0.975
_SUM_BYTES = 4.0  # a partial result is kept in FP32
_PART_BYTES = 2.0  # where the last block of a head adds parts up alone they have 16 bits


@dataclass(frozen=True)
class AttentionShape:
    """``batch`` sequences of ``kv_length`` keys each, the new one included; ``heads`` query heads share ``kv_heads`` of
    ``head_dim`` elements;
    ``window``: only so many of the last keys count (0: all); ``kv_dtype``: of the cache, where it is not the queries'
    (""). ``each_head``: a block has one query head, and reads its keys whichever others share them, without splitting
    them (masked multi-head attention as of TensorRT-LLM 0.5 to 0.6, before its kernels for shared heads, which its
    notes of 2024-01-30 call 2.4 times as fast on Llama 70B). ``framework``: whose kernels (:data:`FRAMEWORKS`).
    ``cold``: keys and values lie in DRAM even where they would fit into L2, as in a model, whose other layers pass
    through L2 between two tokens. ``splits``: whether keys of a sequence may be split into parts, as all libraries do
    unless told otherwise, but engines of TensorRT-LLM before 0.12 only if built with multi_block_mode;
    ``splits_single_heads``: whether they are split even where each query head has its own and the library of today
    leaves them whole."""

    batch: int
    kv_length: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str = "bf16"
    window: int = 0
    kv_dtype: str = ""
    each_head: bool = False
    framework: str = FRAMEWORKS[0]
    cold: bool = False
    splits: bool = True
    splits_single_heads: bool = False

    def __post_init__(self) -> None:
        for name in ("batch", "kv_length", "heads", "kv_heads", "head_dim"):
            value = getattr(self, name)
            if not 1 <= value < _LARGEST:
                raise SpecError(f"an attention's {name} is {value}, not between 1 and {_LARGEST - 1}")
        if self.heads % self.kv_heads:
            raise SpecError(f"an attention's heads are {self.heads}, no multiple of its kv_heads, {self.kv_heads}")
        if not 0 <= self.window < _LARGEST:
            raise SpecError(f"an attention's window is {self.window}, not between 0 and {_LARGEST - 1}")
        framework_known(self.framework)
        for dtype in (self.dtype, self.kv_dtype or self.dtype):
            if dtype not in OPERANDS:
                raise SpecError(f"an attention's dtype is {dtype!r}: known are {', '.join(OPERANDS)}")

    @property
    def keys(self) -> int:
        """That each query meets."""
        return min(self.kv_length, self.window or self.kv_length)

    @property
    def kv_element_bytes(self) -> float:
        """Of an element of keys and values."""
        return OPERANDS[self.kv_dtype or self.dtype][0]

    @property
    def kv_bytes(self) -> float:
        """Of all keys and values that are read."""
        return 2.0 * self.kv_element_bytes * self.batch * self.kv_heads * self.keys * self.head_dim

    @property
    def flops(self) -> float:
        """Operations of both products, a multiply-add counting two."""
        return 4.0 * self.batch * self.heads * self.keys * self.head_dim


def library_for(spec: GpuSpec, shape: AttentionShape) -> AttentionLibrary:
    """The kernels that the shape's framework takes for it on ``spec``."""
    if is_described(spec, shape.framework, shape.dtype, shape.kv_dtype or shape.dtype) and not shape.each_head:
        return described_attention(spec)
    rows = cache_rows(shape.kv_element_bytes, shape.head_dim)
    rows = kernel_rows(rows, shape.framework, shape.window, shape.head_dim)
    shared = attention_library_of(kernels_of(spec), shape.framework, rows)
    if not one_head_a_block(spec, shape, shared):
        return shared
    earlier = (ENGINES_OF_THEN,) if shape.kv_element_bytes < 2 and (shape.each_head or not shape.splits) else ()
    return attention_library_of(kernels_of(spec), shape.framework, (*each_head_rows(rows), *earlier))


def one_head_a_block(spec: GpuSpec, shape: AttentionShape, library: AttentionLibrary) -> bool:
    """Whether each block has one query head, which reads its keys whichever others share them: because the shape says
    so, because more share them than ``library`` has kernels for, or because TensorRT-LLM expects nothing of its kernels
    for shared heads."""
    group = shape.heads // shape.kv_heads
    if shape.each_head or library.rule == "mmha" or 0 < library.most_shared < group:
        return True
    if library.rule not in XQA or group == 1:
        return library.rule in XQA
    # Masked multi-head attention has no 16-bit queries beside a cache in E4M3, so that heads that share one are never
    # left to it today (decoderXQARunner.cpp, DecoderXQARunner::shouldUse). Learning rows of an H100: where it would be
    # taken by the rule below, they take 0.5 to 0.7 of what 16 bits do.
    if (shape.kv_dtype or shape.dtype) == _E4M3 and shape.splits:
        return False
    return not takes_xqa(spec.sm_count, shape.batch, shape.kv_heads, shape.kv_length if shape.splits else 1)


def project_attention(
    spec: GpuSpec, shape: AttentionShape, library: AttentionLibrary | None = None, limit_watts: float | None = None
) -> Projection:
    """Time of ``shape`` by a library's kernels on ``spec``, as nodes of a CUDA graph; keys and values lie in L2 where
    they fit. ``library``: other figures than the generation's own; ``limit_watts``: another power limit than the
    board's (``inf``: none). Raises SpecError where the GPU has no such products or its generation's kernels are not
    known."""
    machine = tile_machine(spec, shape.dtype)
    used = library or library_for(spec, shape)
    group = shape.heads // shape.kv_heads
    each_head = one_head_a_block(spec, shape, used)
    rereads = group if each_head else 1
    blocks = shape.batch * shape.kv_heads * max(rereads, -(-group // used.query_rows))
    # Of keys and values, where values have fewer elements.
    value_part = (1.0 + used.value_share) / 2.0
    kv_bytes = shape.kv_bytes * value_part
    split = RULES[used.rule](
        Keys(
            blocks, shape.kv_length if used.rule in (*XQA, "mmha") else shape.keys, shape.head_dim, shape.kv_element_bytes, machine.sm_count, spec.sm.shared_max_bytes, used.blocks_per_sm,
            used.kv_columns, shape.batch, shape.kv_heads, shape.kv_length, used.given_parts,
        )
    )  # fmt: skip
    all_steps: float = -(-shape.kv_length // split.columns)
    places = machine.sm_count * split.blocks_per_sm
    if shape.keys < shape.kv_length:
        # A tile or page of keys in whose midst a window begins is loaded whole.
        page_keys = used.window_page_keys or split.columns
        first = (shape.kv_length - shape.keys - used.window_early_keys) // page_keys * page_keys
        kv_bytes *= (shape.kv_length - first) / shape.keys
        all_steps -= first / split.columns
    whole = group == 1 and not (used.splits_single_heads or shape.splits_single_heads)
    if each_head and used.rule != "mmha":
        whole = True
    parts = 1 if whole or not shape.splits else split.parts
    step_bytes = 2.0 * value_part * shape.kv_element_bytes * split.columns * shape.head_dim
    step_flops = 4.0 * used.query_rows * split.columns * shape.head_dim
    arithmetic = step_flops * split.blocks_per_sm / machine.flops_per_cycle if used.rule != "mmha" else 0.0
    tile_rows = _tile_rows(group)
    least_step = used.step_cycles + used.step_row_cycles * tile_rows
    step = max(step_bytes / used.block_bytes_per_cycle, least_step, arithmetic)
    start_cycles = machine.cycles_of(used.start_cycles, used.clock_mhz) if used.clock_mhz else used.start_cycles
    start_cycles += used.start_row_cycles * tile_rows
    # Tiles at both ends of a window have a mask.
    start_cycles += used.window_start_cycles * (shape.keys < shape.kv_length)
    steps = split.first_step if all_steps == 1 else all_steps if parts == 1 else -(-all_steps // parts)
    busy = float(parts)
    if used.rule == "segments":
        # Parts of the whole sequence, however few its keys: those of a window, or all, lie in few of them, and the
        # other blocks leave at once.
        whole_steps = -(-shape.kv_length // split.columns)
        steps = min(all_steps, -(-whole_steps // parts))
        busy = min(busy, all_steps / steps)
    elif used.rule == "xqa_window" and shape.keys < shape.kv_length:
        busy = min(busy, all_steps / steps)
    elif used.rule == "flash3":
        # Parts have whole steps, and the last of them may have none.
        busy = float(-(-all_steps // steps))
    block_cycles = start_cycles + steps * step
    waves = -(-blocks * busy // places)
    # Parts that lie before a window: their blocks start, and have no step.
    worked = min(1.0, all_steps / busy)
    later_start = used.later_start_share * start_cycles
    idle_cycles = used.idle_start_share * start_cycles
    later_cycles = worked * (later_start + steps * step) + (1.0 - worked) * used.idle_start_share * later_start
    peak_rate = _MOST_OF_PEAK * spec.dram.peak_bytes_per_ns * 1e9 / machine.clock_hz
    # Shares of an A100 are what its SMs' loads reach, as in products: a guess, no rows of a GPU with less of DRAM's
    # rate for each SM are at hand.
    fed = library_of(kernels_of(spec)).dram_fed_bytes_per_ns
    dram_rate = min(machine.dram_bytes_per_cycle * machine.dram_share(used.dram_share, fed), peak_rate)
    found_bytes = used.l2_share * machine.l2_bytes
    # Of what does not fit a part is found: none where it is twice as large.
    missed = 1.0 if shape.cold else min(1.0, max(0.0, kv_bytes / found_bytes - 1.0))
    # What is read again comes from L2 while it is being read by neighbours, at the rate that products' loads reach.
    borrowed = each_head and used.rule != "mmha"
    l2_share = library_of(kernels_of(spec)).l2_rate_share if borrowed else used.l2_rate_share
    l2_share = machine.l2_share(l2_share, library_of(kernels_of(spec)).l2_fed_bytes_per_cycle)
    l2_rate = machine.l2_bytes_per_cycle * l2_share
    bounds = {
        "DRAM": start_cycles
        + missed * kv_bytes / dram_rate,
        "L2": start_cycles + rereads * kv_bytes / l2_rate,
        "latency": block_cycles + (waves - 1) * later_cycles + blocks * (parts - busy) / places * idle_cycles,
    }  # fmt: skip
    limiter = max(bounds, key=lambda unit: bounds[unit])
    after_cycles = used.head_cycles * shape.batch * shape.heads / machine.sm_count
    parts_bytes = 0.0
    if parts > 1:
        # Parts without keys say so, and are not read.
        summed = busy if used.rule in ("flash3", "xqa_window") else float(parts)
        parts_bytes = _SUM_BYTES * summed * shape.batch * shape.heads * shape.head_dim
        alone_bytes = _PART_BYTES * parts * used.combine_rows * shape.head_dim
        after_cycles += used.combine_cycles + parts_bytes / l2_rate + alone_bytes / used.block_bytes_per_cycle
        after_cycles += used.combine_part_cycles * summed
        after_cycles += used.combine_rest_cycles * (shape.heads % _COMBINE_ROWS > 0)
    # Heads that share keys are put side by side, by copies, where that is not how they lie.
    regrouped = group > 1 and not each_head and shape.batch > 1 and shape.kv_heads > 1
    after_cycles += regrouped * used.regroup_head_cycles * shape.batch * shape.heads / machine.sm_count
    asked = asked_parts(used.given_parts, shape.batch) > 0
    after_cycles += asked * used.given_head_cycles * shape.batch * shape.heads / machine.sm_count
    # Each block's scheduler goes through the sequences before its own, and loads what it finds of their parts.
    sequences_ns = shape.batch * (used.sequence_ns + asked * used.given_sequence_ns)
    # Bandwidth is missing while blocks begin and end, for no longer than the bytes themselves take.
    ramp_ns = missed * min(used.missed_ns, 1e9 * kv_bytes / dram_rate / machine.clock_hz)
    launch_seconds = 1e-9 * (
        used.launch_ns
        + sequences_ns
        + ramp_ns
        + regrouped * used.regroup_ns
        + odd_width(shape.head_dim) * used.odd_width_ns
    )
    l2_bytes = rereads * kv_bytes + 2.0 * parts_bytes
    # A block multiplies whole tiles by tensor cores, rows without queries and keys beyond the last included; one of a
    # single head works lane by lane on what there is.
    tiles = blocks * max(parts, all_steps) * split.columns
    rows = min(used.query_rows, -(-group // used.least_rows) * used.least_rows)
    executed = 0.0 if each_head else 4.0 * rows * tiles * shape.head_dim
    vector_flops = SCORE_OPERATIONS * shape.flops / (4.0 * shape.head_dim)

    def seconds_at(clock_share: float) -> float:
        memory = max(bounds["DRAM"], bounds["L2"] / clock_share) - start_cycles
        latency = bounds["latency"] / clock_share - start_cycles
        most = start_cycles + overlapped(memory, latency, used.overlap_power)
        return (most + after_cycles / clock_share) / machine.clock_hz

    limited_seconds = slowed_beside_dram(
        spec, limit_watts, seconds_at, shape.dtype, shape.flops, missed * kv_bytes, l2_bytes, vector_flops
    )
    seconds = launch_seconds + limited_seconds
    if launch_seconds > seconds / 2:
        limiter = "launch"
    elif limited_by_power(limited_seconds, seconds_at(1.0)):
        limiter = "power"
    band = attention_band(
        kernels_of(spec), shape.kv_dtype or shape.dtype, shape.kv_bytes, shape.keys < shape.kv_length, shape.framework
    )
    band = within_reach(
        band, "generation", "attention", ATTENTION_SIZES, shape.batch, shape.keys, shape.heads, shape.head_dim
    )
    if shape.each_head and group > 1:
        band = replace(
            band,
            validated=False,
            reason="not validated: nothing was compared with kernels that read shared keys for each head",
        )
    return Projection(
        operator=_title(shape), gpu=spec.name, seconds=seconds, low_seconds=seconds / band.factor,
        high_seconds=seconds * band.factor, validated=band.validated, reason=band.reason, limiter=limiter,
        dtype=shape.dtype, flops=shape.flops, executed_flops=executed, dram_bytes=missed * kv_bytes,
        vector_flops=vector_flops, l2_bytes=l2_bytes, started_blocks=0.0 if each_head else float(blocks * parts),
        launches=2 + (parts > 1) + 2 * regrouped,
    )  # fmt: skip


def _tile_rows(group: int) -> int:
    """Of queries that share keys: of an XQA kernel's tile."""
    return max(_LEAST_TILE_ROWS, 1 << (group - 1).bit_length())


def _title(shape: AttentionShape) -> str:
    window = f", window {shape.window}" if shape.window else ""
    return (
        f"attention of {shape.batch} x 1 queries, {shape.kv_length} keys, {shape.heads} heads on {shape.kv_heads} of "
        f"{shape.head_dim}{window}"
    )
