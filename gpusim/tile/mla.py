"""Latent attention (DeepSeek's MLA), projected: one latent of a key for all heads.

Mental model: when text is generated every head meets the same 576 elements of a key (a latent of 512, and 64 that are
rotated), and the 512 are the values too; so a block takes 64 heads of one sequence, and the keys are read once for
them. Where there are few sequences the keys are split into parts. Over a context the latent is widened first, and it is
plain attention with heads of 192 for the scores and 128 for the values. Figures: :mod:`gpusim.tile.mla_library`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.energy.power import limited_by_power, slowed_beside_dram
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention_context import ContextLibrary, ContextShape, project_context
from gpusim.tile.bands import operator_band
from gpusim.tile.library import named_kernels
from gpusim.tile.machine import OPERANDS, has_products, tile_machine
from gpusim.tile.mla_described import mla_context_library_on, mla_library_on
from gpusim.tile.mla_library import LATENT, ROTATED, MlaLibrary
from gpusim.tile.projection import Projection
from gpusim.tile.reach import ATTENTION_SIZES, CONTEXT_SIZES, within_reach

#: Elements of a widened head's values, and of its keys beside those that are rotated.
VALUE, NOT_ROTATED = 128, 128
#: Both products of a widened head, as of two equal ones: of 192 and of 128 elements.
_MEAN_HEAD = (NOT_ROTATED + ROTATED + VALUE) // 2
_SUM_BYTES = 4.0
#: Whose rows set the figures over a context: its kernels for contexts serve one token a sequence too.
_FOLLOWED = "trtllm"


@dataclass(frozen=True)
class MlaShape:
    """``batch`` sequences of ``queries`` new tokens that meet ``keys`` in all, by ``heads`` of this GPU; ``phase``:
    "generation" or "context";
    ``kv_dtype``: of the cache, where it is not the queries' ("")."""

    batch: int
    queries: int
    keys: int
    heads: int
    phase: str = "generation"
    dtype: str = "bf16"
    kv_dtype: str = ""

    def __post_init__(self) -> None:
        for name in ("batch", "queries", "keys", "heads"):
            if not 1 <= getattr(self, name) < 1 << 31:
                raise SpecError(f"an attention's {name} is {getattr(self, name)}, not between 1 and {(1 << 31) - 1}")
        for dtype in (self.dtype, self.kv_dtype or self.dtype):
            if dtype not in OPERANDS:
                raise SpecError(f"an attention's dtype is {dtype!r}: known are {', '.join(OPERANDS)}")

    @property
    def kv_bytes(self) -> float:
        """Of all latents that are read."""
        return OPERANDS[self.kv_dtype or self.dtype][0] * self.batch * self.keys * (LATENT + ROTATED)

    @property
    def flops(self) -> float:
        """Operations of both products on latents, a multiply-add counting two."""
        return 2.0 * self.batch * self.queries * self.heads * self.keys * (2 * LATENT + ROTATED)


def _multiplied(spec: GpuSpec, shape: MlaShape) -> str:
    """What the tensor cores multiply: latents as the cache has them where the GPU has such products, and queries are
    brought to their format; else latents are widened."""
    return shape.kv_dtype if shape.kv_dtype and has_products(spec, shape.kv_dtype) else shape.dtype


def project_mla(
    spec: GpuSpec, shape: MlaShape, library: MlaLibrary | None = None, context: ContextLibrary | None = None,
    limit_watts: float | None = None,
) -> Projection:  # fmt: skip
    """Time of ``shape`` on ``spec``. ``library``, ``context``: other figures of either phase than the generation's own;
    ``limit_watts``: another power limit than the board's (``inf``: none). Raises SpecError where the GPU has no such
    products."""
    title = f"latent attention of {shape.batch} x {shape.queries} queries, {shape.keys} keys, {shape.heads} heads"
    long = shape.phase == "context"
    kind = ("mla_context" if long else "mla_generation") + "_fp8" * (shape.kv_dtype == "fp8")
    band = operator_band(kind, named_kernels(spec), shape.queries if long else shape.kv_bytes)
    measured, tokens = (CONTEXT_SIZES, shape.queries) if long else (ATTENTION_SIZES, shape.keys)
    band = within_reach(band, kind, "latent attention", measured, shape.batch, tokens, shape.heads, 1)
    if long:
        plain = ContextShape(
            shape.batch, shape.queries, shape.heads, shape.heads, _MEAN_HEAD, shape.dtype, shape.keys - shape.queries, kv_dtype=shape.kv_dtype,
            framework=_FOLLOWED,
        )  # fmt: skip
        found = project_context(spec, plain, context or mla_context_library_on(spec, shape.kv_dtype), limit_watts)
        # Whatever the heads, each new token's latent is read and written into the cache.
        cached = OPERANDS[shape.dtype][0] + OPERANDS[shape.kv_dtype or shape.dtype][0]
        moved = cached * shape.batch * shape.queries * (LATENT + ROTATED)
        machine = tile_machine(spec, shape.dtype)
        seconds = found.seconds + moved / (machine.dram_bytes_per_cycle * machine.clock_hz)
        return replace(
            found, operator=title, validated=band.validated, reason=band.reason, seconds=seconds, low_seconds=seconds / band.factor,
            high_seconds=seconds * band.factor, dram_bytes=found.dram_bytes + moved,
        )  # fmt: skip
    multiplied = _multiplied(spec, shape)
    machine = tile_machine(spec, multiplied)
    used = library or mla_library_on(spec, shape.kv_dtype)
    rows = shape.heads * shape.queries
    groups, steps = -(-rows // used.query_rows), -(-shape.keys // used.kv_columns)
    blocks = shape.batch * groups
    shared_out = max(
        1, machine.sm_count // groups
    )  # blocks that the keys of all sequences are shared out to, for each group of heads
    parts = max(1, min(machine.sm_count // blocks, steps, used.most_parts))
    step_bytes = OPERANDS[shape.kv_dtype or shape.dtype][0] * used.kv_columns * (LATENT + ROTATED)
    arithmetic = (
        2.0 * used.query_rows * used.kv_columns * (2 * LATENT + ROTATED) / (machine.flops_per_cycle * used.rate)
    )
    step = max(used.step_cycles, arithmetic, step_bytes / used.block_bytes_per_cycle)
    if used.most_parts > 1:
        # Where keys are split they are shared out evenly, so that a block may end one sequence and begin the next
        # (FlashMLA, get_mla_metadata).
        waves = max(1.0, blocks / machine.sm_count)
        steps_of_waves = max(-(-steps // parts), shape.batch * steps / shared_out)
    else:
        # Blocks go to TPCs of two SMs in turn: those of a wave that fills more than half of the SMs have neighbours,
        # which slow them.
        whole_waves, rest = divmod(blocks, machine.sm_count)
        slowed_waves = whole_waves + (rest > machine.sm_count / 2)
        waves = float(whole_waves + (rest > 0))
        steps_of_waves = steps * (waves + slowed_waves * (used.pair_factor - 1.0))
    missed = min(1.0, max(0.0, shape.kv_bytes / (used.l2_share * machine.l2_bytes) - 1.0))
    l2_rate = machine.l2_bytes_per_cycle * used.l2_rate_share
    read_bytes = shape.kv_bytes * -(-rows // used.query_rows)
    bounds = {
        "DRAM": used.start_cycles + missed * shape.kv_bytes / (machine.dram_bytes_per_cycle * used.dram_share),
        "L2": used.start_cycles + read_bytes / l2_rate,
        "latency": waves * used.start_cycles + steps_of_waves * step,
    }
    limiter = max(bounds, key=lambda unit: bounds[unit])
    after_cycles = used.head_cycles * shape.batch * rows / machine.sm_count
    if limiter == "latency" and step == arithmetic:
        limiter = "tensor cores"
    parts_bytes = 0.0
    if parts > 1:
        parts_bytes = _SUM_BYTES * parts * shape.batch * rows * LATENT
        after_cycles += used.combine_cycles + parts_bytes / l2_rate
    l2_bytes = read_bytes + 2.0 * parts_bytes

    def seconds_at(clock_share: float) -> float:
        most = max(bounds["DRAM"], bounds["L2"] / clock_share, bounds["latency"] / clock_share)
        return (most + after_cycles / clock_share) / machine.clock_hz

    limited_seconds = slowed_beside_dram(
        spec, limit_watts, seconds_at, multiplied, shape.flops, missed * shape.kv_bytes, l2_bytes
    )
    seconds = 1e-9 * used.launch_ns + limited_seconds
    if 1e-9 * used.launch_ns > seconds / 2:
        limiter = "launch"
    elif limited_by_power(limited_seconds, seconds_at(1.0)):
        limiter = "power"
    return Projection(
        operator=title, gpu=spec.name, seconds=seconds, low_seconds=seconds / band.factor,
        high_seconds=seconds * band.factor, validated=band.validated, reason=band.reason, limiter=limiter, dtype=multiplied,
        flops=shape.flops, dram_bytes=missed * shape.kv_bytes, l2_bytes=l2_bytes,
        launches=2 + (parts > 1),
    )  # fmt: skip
