"""Latent attention (DeepSeek's MLA), projected: one latent of a key for all heads.

Mental model: when text is generated every head meets the same 576 elements of a key (a latent of 512, and 64 that are rotated), and the 512 are the
values too; so a block takes 64 heads of one sequence, and the keys are read once for them. Where there are few sequences the keys are split into parts. Over
a context the latent is widened first, and it is plain attention with heads of 192 for the scores and 128 for the values. Figures: ``mla.toml``.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gpusim.energy.power import limited_by_power, slowed_beside_dram
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention_context import ContextLibrary, ContextShape, context_library_of, project_context
from gpusim.tile.bands import operator_band
from gpusim.tile.library import LIKE, kernels_of
from gpusim.tile.machine import OPERANDS, has_products, tile_machine
from gpusim.tile.projection import Projection

_FILE = Path(__file__).with_name("mla.toml")
LATENT, ROTATED, VALUE, NOT_ROTATED = 512, 64, 128, 128
#: Both products of a widened head, as of two equal ones: of 192 and of 128 elements.
_MEAN_HEAD = (NOT_ROTATED + ROTATED + VALUE) // 2
_SUM_BYTES = 4.0


@dataclass(frozen=True)
class MlaShape:
    """``batch`` sequences of ``queries`` new tokens that meet ``keys`` in all, by ``heads`` of this GPU; ``phase``: "generation" or "context";
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


@dataclass(frozen=True)
class MlaLibrary:
    """The figures of ``mla.toml`` for one generation, units in the names; shares are of 1."""

    query_rows: int
    kv_columns: int
    most_parts: int
    launch_ns: float
    start_cycles: float
    step_cycles: float
    pair_factor: float
    rate: float
    block_bytes_per_cycle: float
    head_cycles: float
    combine_cycles: float
    dram_share: float
    l2_rate_share: float
    l2_share: float


@functools.cache
def mla_library_of(generation: str, kv_dtype: str = "") -> MlaLibrary:
    """The latent attention kernels of a GPU generation, or of the one that it is taken to be like (:data:`gpusim.tile.library.LIKE`), with what the table says otherwise of
    a cache of ``kv_dtype``. Raises SpecError for a generation of which nothing is known."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    if name not in table:
        raise SpecError(
            f"no latent attention is known for generation {generation!r}: known are {', '.join(sorted(table))}"
        )
    row = {key: value for key, value in table[name].items() if not isinstance(value, dict)}
    row |= table[name].get(f"{kv_dtype}_cache", {})
    expected = {each.name for each in fields(MlaLibrary)}
    if set(row) != expected:
        raise SpecError(f"{_FILE.name}, {name}: missing or unknown: {', '.join(sorted(set(row) ^ expected))}")
    return MlaLibrary(**row)


@functools.cache
def mla_context_library_of(generation: str, kv_dtype: str = "") -> ContextLibrary:
    """The same of the kernels over a context: plain attention's, but for what ``mla.toml`` says otherwise."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    own = table.get(name, {})
    return replace(context_library_of(name), **own.get("context", {}) | own.get(f"context_{kv_dtype}_cache", {}))


def _multiplied(spec: GpuSpec, shape: MlaShape) -> str:
    """What the tensor cores multiply: latents as the cache has them where the GPU has such products, and queries are brought to their format; else latents are widened."""
    return shape.kv_dtype if shape.kv_dtype and has_products(spec, shape.kv_dtype) else shape.dtype


def project_mla(
    spec: GpuSpec, shape: MlaShape, library: MlaLibrary | None = None, context: ContextLibrary | None = None,
    limit_watts: float | None = None,
) -> Projection:  # fmt: skip
    """Time of ``shape`` on ``spec``. ``library``, ``context``: other figures of either phase than the generation's own; ``limit_watts``: another power limit than the board's
    (``inf``: none). Raises SpecError where the GPU has no such products."""
    title = f"latent attention of {shape.batch} x {shape.queries} queries, {shape.keys} keys, {shape.heads} heads"
    long = shape.phase == "context" and shape.queries > 1
    kind = ("mla_context" if long else "mla_generation") + "_fp8" * (shape.kv_dtype == "fp8")
    band = operator_band(kind, kernels_of(spec), shape.queries if long else shape.kv_bytes)
    if long:
        plain = ContextShape(
            shape.batch, shape.queries, shape.heads, shape.heads, _MEAN_HEAD, shape.dtype, shape.keys - shape.queries, kv_dtype=shape.kv_dtype
        )  # fmt: skip
        found = project_context(
            spec, plain, context or mla_context_library_of(kernels_of(spec), shape.kv_dtype), limit_watts
        )
        return replace(
            found, operator=title, validated=band.validated, reason=band.reason, low_seconds=found.seconds / band.factor,
            high_seconds=found.seconds * band.factor,
        )  # fmt: skip
    multiplied = _multiplied(spec, shape)
    machine = tile_machine(spec, multiplied)
    used = library or mla_library_of(kernels_of(spec), shape.kv_dtype)
    rows = shape.heads * shape.queries
    blocks = shape.batch * -(-rows // used.query_rows)
    steps = -(-shape.keys // used.kv_columns)
    parts = max(1, min(machine.sm_count // blocks, steps, used.most_parts))
    step_bytes = OPERANDS[shape.kv_dtype or shape.dtype][0] * used.kv_columns * (LATENT + ROTATED)
    arithmetic = (
        2.0 * used.query_rows * used.kv_columns * (2 * LATENT + ROTATED) / (machine.flops_per_cycle * used.rate)
    )
    step = max(used.step_cycles, arithmetic, step_bytes / used.block_bytes_per_cycle)
    # Blocks go to TPCs of two SMs in turn: those of a wave that fills more than half of the SMs have neighbours, which slow them.
    whole_waves, rest = divmod(blocks * parts, machine.sm_count)
    slowed_waves = whole_waves + (rest > machine.sm_count / 2)
    waves = whole_waves + (rest > 0)
    steps_of_waves = -(-steps // parts) * (waves + slowed_waves * (used.pair_factor - 1.0))
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
