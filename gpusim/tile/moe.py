"""A layer of experts on one GPU, projected: routing, two grouped products, the activation between them, the sum at the
end.

Mental model: every token goes to ``top_k`` experts; its row is taken once for each. The rows of each expert are one
product of a launch that has them all (:func:`gpusim.tile.gemm.project_gemm`), with the expert's own weights; an expert
with few rows costs its weights all the same. Figures: ``moe.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.bands import Band, operator_band
from gpusim.tile.described_experts import DESCRIBED_FRAMEWORK, described_experts
from gpusim.tile.formats import Format, format_of
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.joined import joined
from gpusim.tile.library import FRAMEWORKS, Library, Tile, is_known, kernels_of
from gpusim.tile.machine import tile_machine
from gpusim.tile.memory import MemoryOp, project_memory
from gpusim.tile.moe_library import MoeLibrary, kind_of, moe_library_of
from gpusim.tile.moe_waves import conversion_trips, wave_tile
from gpusim.tile.projection import Projection
from gpusim.tile.reach import EXPERTS_SIZES, within_reach
from gpusim.tile.routing import all_expert_rows, dispatched_tokens, even_expert_rows

#: Elements of a row that vector loads want a multiple of.
_VECTOR_ELEMENTS = 16
_LARGEST = 1 << 31


@dataclass(frozen=True)
class MoeOp:
    """``tokens`` of ``hidden`` elements meet ``experts`` of ``intermediate`` (before ``tp``), ``top_k`` each. ``ep``:
    GPUs that share the experts out,
    ``tp``: that share each expert; the time is that of the most loaded GPU, without communication. ``gated``: a gate
    beside the first product, as of SwiGLU.
    ``distribution``: see :mod:`gpusim.tile.routing`. ``dtype``: a number format of :data:`gpusim.tile.formats.FORMATS`;
    ``block_scaled``: with the scales for blocks that are usual for it. ``framework``: whose kernels
    (:data:`gpusim.tile.attention.FRAMEWORKS`; "": the one that is followed for the format, as ``moe.toml`` has it).
    ``earlier``: a framework of before its default tiles changed (vLLM before 0.17), where it has no searched ones.
    ``warm``: weights that fit into L2 are found there, as where nothing but this layer runs again and again; between
    two uses of a model's layer all its other layers' weights pass through L2."""

    tokens: int
    hidden: int
    intermediate: int
    experts: int
    top_k: int
    dtype: str = "bf16"
    ep: int = 1
    tp: int = 1
    distribution: str = "power_law_1.2"
    gated: bool = True
    block_scaled: bool = False
    framework: str = ""
    warm: bool = False
    earlier: bool = False

    def __post_init__(self) -> None:
        for name in ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "tp"):
            value = getattr(self, name)
            if not 1 <= value < _LARGEST:
                raise SpecError(f"an expert layer's {name} is {value}, not between 1 and {_LARGEST - 1}")
        if self.experts > 1 << 14:
            raise SpecError(f"an expert layer's experts are {self.experts}, more than {1 << 14}")
        if self.top_k > self.experts:
            raise SpecError(f"an expert layer's top_k is {self.top_k}, more than its experts, {self.experts}")
        if self.ep > self.experts:
            raise SpecError(
                f"an expert layer's experts are {self.experts}, fewer than its GPUs that share them out, ep {self.ep}: give copies of experts as experts"
            )
        if self.framework not in ("", *FRAMEWORKS):
            raise SpecError(f"an expert layer's framework is {self.framework!r}: known are {', '.join(FRAMEWORKS)}")
        format_of(self.dtype, self.block_scaled)

    @property
    def own_experts(self) -> int:
        """Of the GPU that has the most, where they cannot be shared out evenly."""
        return -(-self.experts // self.ep)

    @property
    def format(self) -> Format:
        """Of weights and activations in memory."""
        return format_of(self.dtype, self.block_scaled)


def project_moe(
    spec: GpuSpec, op: MoeOp, library: MoeLibrary | None = None, limit_watts: float | None = None
) -> Projection:
    """Time of one GPU's part of ``op`` on ``spec``, the most loaded one's; ``library``: other figures than the
    generation's own; ``limit_watts``: another power limit than the board's (``inf``: none). Raises SpecError where the
    GPU has no such products."""
    known = op.format
    asked = "bf16" if known.name == "fp16" else known.name
    used = (library or _figures(spec, asked, op.framework)).on(spec)
    machine = tile_machine(spec, known.operands)
    groups, others = all_expert_rows(op.tokens, op.experts, op.top_k, op.ep, op.distribution)
    tokens = op.tokens
    if used.choices not in ("own", "all"):
        tokens = dispatched_tokens(op.tokens, op.top_k, op.ep, op.distribution, groups)
    choices = max(sum(groups), tokens * op.top_k)
    if used.choices == "clamped":
        groups, others = (groups[0] + choices - sum(groups), *groups[1:]), ()
    rows, inside = sum(groups), -(-op.intermediate // op.tp)
    held = rows if used.choices == "own" else choices
    widths = 2 if op.gated else 1
    b_bytes = known.a_bytes if used.widened else known.b_bytes
    weight_bytes = b_bytes * len(groups) * inside * op.hidden
    product = used.product_for(spec, tokens, op.own_experts, inside, op.top_k, op.earlier)
    cold = machine.lost_share(weight_bytes * (widths + 1), product.l2_share) if op.warm else 1.0
    up, down = (
        GemmShape(rows, columns, depth, known.operands, cold_b=cold, group_rows=groups, a_bytes=known.a_bytes, b_bytes=b_bytes)
        for columns, depth in ((widths * inside, op.hidden), (op.hidden, inside))
    )  # fmt: skip
    # What is converted by a kernel of its own before a product comes to it in 16 bits.
    moved_bytes = 2.0 if used.convert_cycles else known.a_bytes
    activation = MemoryOp("activation", 2.0 * held * widths * inside, moved_bytes * held * inside, held)
    summing = MemoryOp("copy", 2.0 * held * op.hidden, 2.0 * tokens * op.hidden, tokens)
    even = even_expert_rows(op.tokens, op.experts, op.top_k, op.ep) if used.tuned_evenly else groups
    if used.waves:
        mean_rows = -(-op.tokens * op.top_k // op.experts)
        kernels = [replace(product, tiles=(wave_tile(machine.sm_count, mean_rows, each.columns, each.depth, op.own_experts),)) for each in (up, down)]  # fmt: skip
    else:
        kernels = [_tuned(spec, each, product, even) for each in (up, down)]
    parts = [
        _product(spec, up, kernels[0], limit_watts), project_memory(spec, activation, limit_watts=limit_watts),
        _product(spec, down, kernels[1], limit_watts), project_memory(spec, summing, limit_watts=limit_watts),
    ]  # fmt: skip
    zeros_bytes = 2.0 * (held - rows) * (widths * inside + op.hidden)
    zeros_seconds = zeros_bytes / (machine.dram_bytes_per_cycle * machine.clock_hz)
    extra_cycles = 0.0
    if used.choices in ("all", "dispatched") and len(product.tiles) == 1:
        extra_cycles = _idle_cycles(op, used, product.tiles[0], groups, held, others, (widths * inside, op.hidden))
    if used.element_cycles and inside % _VECTOR_ELEMENTS:
        extra_cycles += used.element_cycles * _loaded_elements(down, product.tiles[0])
    extra_cycles += used.sum_cycles(op.top_k) * held * op.hidden
    extra_seconds = extra_cycles / machine.sm_count / machine.clock_hz
    if used.convert_cycles:
        for depth in (op.hidden, inside):
            converted = project_memory(
                spec,
                MemoryOp("quantize", 2.0 * held * depth, known.a_bytes * held * depth, held),
                limit_watts=limit_watts,
            )
            waited_seconds = used.convert_cycles * conversion_trips(held, depth, machine.sm_count) / machine.clock_hz
            extra_seconds += max(0.0, waited_seconds - converted.seconds)
            parts.append(converted)
    elif known.a_bytes < 2:
        quantize = MemoryOp("quantize", 2.0 * tokens * op.hidden, known.a_bytes * tokens * op.hidden, tokens)
        parts.append(project_memory(spec, quantize, limit_watts=limit_watts))
    if used.expanded:
        expand = MemoryOp("copy", moved_bytes * tokens * op.hidden, moved_bytes * held * op.hidden, held)
        parts.append(project_memory(spec, expand, limit_watts=limit_watts))
    shared = f", 1 of {op.ep} x {op.tp} GPUs" if op.ep * op.tp > 1 else ""
    title = f"{op.experts} experts of {op.hidden} x {op.intermediate}, {op.top_k} each for {op.tokens} tokens{shared}"
    band = _band(spec, op, asked, used)
    sorts = used.sorts(op.ep, op.tokens * op.top_k, op.experts, op.earlier)
    return joined(
        title, parts, band.factor, band.validated, band.reason, 1e-9 * (sorts * used.routing_ns + used.token_ns * tokens + used.rows_ns(held, op.own_experts, known.tensor_scaled) + used.shared_out_ns * (op.ep > 1) + used.sorting_ns(op.tokens, op.own_experts, op.top_k)) + sorts * used.routing_cycles / machine.clock_hz + zeros_seconds + extra_seconds,
    )  # fmt: skip


def _figures(spec: GpuSpec, asked: str, framework: str) -> MoeLibrary:
    """The generation's own, or of one that no table names what its description says, where that is known."""
    if asked == "bf16" and framework == DESCRIBED_FRAMEWORK and not is_known(spec.generation):
        return described_experts(spec, kernels_of(spec))
    return moe_library_of(kernels_of(spec), asked, framework)


def _band(spec: GpuSpec, op: MoeOp, asked: str, used: MoeLibrary) -> Band:
    """Of the kind whose kernels were taken; not known where that is another one than was asked for."""
    found, wanted = operator_band(used.kind, kernels_of(spec), op.tokens), kind_of(asked, op.framework)
    found = within_reach(found, used.kind, "experts", EXPERTS_SIZES, op.tokens, op.hidden, op.intermediate, op.experts)
    if used.kind == wanted:
        return found
    reason = f"not validated: no measured {wanted} of such a GPU; as {used.kind}: {found.reason}"
    return Band(found.factor, 0, False, reason)


def _idle_cycles(
    op: MoeOp, used: MoeLibrary, tile: Tile, groups: tuple[int, ...], held: int, others: tuple[int, ...], columns: tuple[int, int]
) -> float:  # fmt: skip
    """Of one SM, that blocks of both launches take beside those of this GPU's rows: the grid has room for all choices
    and a last tile of every expert, but no more rows of tiles than choices where these are fewer than experts or tokens
    do not fill a tile (vLLM, fused_moe.py, moe_align_block_size.py)."""
    # Where only such tokens come, the grid is of this GPU's experts alone, and rows of all others are one more
    # "expert".
    dispatched = used.choices == "dispatched"
    experts = op.own_experts if dispatched else op.experts
    others = tuple([held - sum(groups)] * (held > sum(groups))) if dispatched else others
    rows = held + experts * (tile.rows - 1)
    if held < tile.rows * op.top_k or held < experts:
        rows = min(rows, held * tile.rows)
    own, zeros = (sum(-(-each // tile.rows) for each in some) for some in (groups, others))
    empty = max(0, -(-rows // tile.rows) - own - zeros)
    cycles = zeros * used.zero_block_cycles + empty * used.empty_block_cycles
    return cycles * sum(-(-each // tile.columns) for each in columns) / tile.blocks


def _loaded_elements(shape: GemmShape, tile: Tile) -> float:
    """Of both operands by all blocks, those beyond the product's end included, which are masked."""
    tiles = shape.tiles(tile.rows) * -(-shape.columns // tile.columns)
    return float(tiles * -(-shape.depth // tile.depth) * (tile.rows + tile.columns) * tile.depth)


def _tuned(spec: GpuSpec, shape: GemmShape, library: Library, even: tuple[int, ...]) -> Library:
    """``library`` with the one tile that is fastest where experts have the rows ``even``, or as it is where these are
    the shape's own."""
    if even == shape.group_rows or len(library.tiles) == 1:
        return library
    found = project_gemm(spec, replace(shape, rows=sum(even), group_rows=even), library)
    return replace(library, tiles=(replace(found.tile, one_wave=False),))


def _product(spec: GpuSpec, shape: GemmShape, library: Library, limit_watts: float | None) -> Projection:
    found = project_gemm(spec, shape, library, limit_watts)
    return Projection(
        operator="", gpu=spec.name, seconds=found.seconds, low_seconds=found.seconds, high_seconds=found.seconds,
        validated=False, reason="", limiter=found.limiter, dtype=shape.dtype, flops=shape.flops,
        dram_bytes=found.dram_bytes, l2_bytes=found.l2_bytes,
    )  # fmt: skip
