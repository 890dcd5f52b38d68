"""A layer of experts on one GPU, projected: routing, two grouped products, the activation between them, the sum at the end.

Mental model: every token goes to ``top_k`` experts; its row is taken once for each. The rows of each expert are one product of a launch that has them all
(:func:`gpusim.tile.gemm.project_gemm`), with the expert's own weights; an expert with few rows costs its weights all the same. Figures: ``moe.toml``.
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.bands import operator_band
from gpusim.tile.formats import Format, format_of
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.joined import joined
from gpusim.tile.library import LIKE, Library, Tile, kernels_of, library_of
from gpusim.tile.machine import tile_machine
from gpusim.tile.memory import MemoryOp, project_memory
from gpusim.tile.moe_tiles import searched_tile
from gpusim.tile.projection import Projection
from gpusim.tile.routing import all_expert_rows

_FILE = Path(__file__).with_name("moe.toml")
_LARGEST = 1 << 31
#: Figures of moe.toml that are not the products'.
_OWN = (
    "routing_ns",
    "token_ns",
    "all_choices",
    "empty_block_cycles",
    "zero_block_cycles",
    "element_cycles",
    "searched",
)
#: Elements of a row that vector loads want a multiple of.
_VECTOR_ELEMENTS = 16


@dataclass(frozen=True)
class MoeOp:
    """``tokens`` of ``hidden`` elements meet ``experts`` of ``intermediate`` (before ``tp``), ``top_k`` each. ``ep``: GPUs that share the experts out,
    ``tp``: that share each expert; the time is that of the most loaded GPU, without communication. ``gated``: a gate beside the first product, as of SwiGLU.
    ``distribution``: see :mod:`gpusim.tile.routing`. ``dtype``: a number format of :data:`gpusim.tile.formats.FORMATS`; ``block_scaled``: with the scales for blocks that are usual
    for it."""

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

    def __post_init__(self) -> None:
        for name in ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "tp"):
            value = getattr(self, name)
            if not 1 <= value < _LARGEST:
                raise SpecError(f"an expert layer's {name} is {value}, not between 1 and {_LARGEST - 1}")
        if self.experts > 1 << 14:
            raise SpecError(f"an expert layer's experts are {self.experts}, more than {1 << 14}")
        if self.top_k > self.experts:
            raise SpecError(f"an expert layer's top_k is {self.top_k}, more than its experts, {self.experts}")
        if self.experts % self.ep:
            raise SpecError(f"an expert layer's experts are {self.experts}, no multiple of its ep, {self.ep}")
        format_of(self.dtype, self.block_scaled)

    @property
    def format(self) -> Format:
        """Of weights and activations in memory."""
        return format_of(self.dtype, self.block_scaled)


@dataclass(frozen=True)
class TileRule:
    """``tile`` where no bound is exceeded: of tokens, of tokens an expert of this GPU, of its rows (tokens that chose it, of all GPUs' tokens) on average."""

    tile: Tile
    most_tokens: float = math.inf
    most_tokens_per_expert: float = math.inf
    most_rows_per_expert: float = math.inf

    def holds(self, tokens: int, experts: int, top_k: int) -> bool:
        """For so many tokens, of which ``top_k`` choices each are counted over this GPU's ``experts`` (as vLLM and SGLang count them)."""
        return (
            tokens <= self.most_tokens
            and tokens <= self.most_tokens_per_expert * experts
            and tokens * top_k <= self.most_rows_per_expert * experts
        )


@dataclass(frozen=True)
class MoeLibrary:
    """``product``: of the grouped products; ``routing_ns``: the kernels that sort choices by expert, and ``token_ns`` more of it for each token.
    ``all_choices``: 1 where kernels go over the rows of other GPUs' experts too, which hold zeros, on a grid that has room for every expert's last tile, needed
    or not: a block without work takes a place for ``empty_block_cycles``, and ``zero_block_cycles`` if its rows are another GPU's. ``element_cycles``: of an SM for each
    element of a tile's operands where rows that are no multiple of 16 elements make lanes load them one by one (Triton's specialisation of arguments; 0: they never do). ``rule``: of which the first that holds is taken, whatever the shape; without any the tile is chosen as for dense products. ``searched``: 1 where tiles of a search come first (:mod:`gpusim.tile.moe_tiles`)."""

    product: Library
    routing_ns: float
    token_ns: float
    all_choices: int
    empty_block_cycles: float = 0.0
    zero_block_cycles: float = 0.0
    element_cycles: float = 0.0
    rule: tuple[TileRule, ...] = ()
    searched: int = 0

    def product_for(self, spec: GpuSpec, tokens: int, experts: int, inside: int, top_k: int = 1) -> Library:
        """The products' kernels, with the one tile that a search or the rule names."""
        tile = searched_tile(spec, experts, inside, tokens) if self.searched else None
        if tile is None:
            tile = next((each.tile for each in self.rule if each.holds(tokens, experts, top_k)), None)
        return replace(self.product, tiles=(tile,), split_k_cycles=math.inf) if tile else self.product


@functools.cache
def moe_library_of(generation: str, dtype: str = "bf16") -> MoeLibrary:
    """The kernels of experts of a GPU generation, or of the one that it is taken to be like (:data:`gpusim.tile.library.LIKE`). Raises SpecError
    for a generation of which nothing is known."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    name = generation if generation in table else LIKE.get(generation, "")
    if name not in table:
        raise SpecError(
            f"no kernels of experts are known for generation {generation!r}: known are {', '.join(sorted(table))}"
        )
    row = {key: value for key, value in table[name].items() if not isinstance(value, dict)}
    row |= table[name].get(dtype, {})
    own = {key: row.pop(key) for key in _OWN}
    rule = tuple(
        TileRule(
            most_tokens=each.pop("most_tokens", math.inf),
            most_tokens_per_expert=each.pop("most_tokens_per_expert", math.inf),
            most_rows_per_expert=each.pop("most_rows_per_expert", math.inf),
            tile=Tile(**each),
        )
        for each in row.pop("rule", ())
    )
    product = replace(library_of(name, dtype), rule=(), **row)
    return MoeLibrary(product, rule=rule, **own)


def project_moe(
    spec: GpuSpec, op: MoeOp, library: MoeLibrary | None = None, limit_watts: float | None = None
) -> Projection:
    """Time of one GPU's part of ``op`` on ``spec``, the most loaded one's; ``library``: other figures than the generation's own; ``limit_watts``: another power limit than
    the board's (``inf``: none). Raises SpecError where the GPU has no such products."""
    # Nothing is known of kernels of experts that take scales for blocks which those without do not have too.
    used = library or moe_library_of(kernels_of(spec), op.format.library.removesuffix("_block"))
    known = op.format
    machine = tile_machine(spec, known.operands)
    groups, others = all_expert_rows(op.tokens, op.experts, op.top_k, op.ep, op.distribution)
    rows, inside = sum(groups), -(-op.intermediate // op.tp)
    widths = 2 if op.gated else 1
    weight_bytes = known.b_bytes * len(groups) * inside * op.hidden
    product = used.product_for(spec, op.tokens, op.experts // op.ep, inside, op.top_k)
    cold = weight_bytes * (widths + 1) > product.l2_share * machine.l2_bytes
    up, down = (
        GemmShape(rows, columns, depth, known.operands, cold_b=cold, group_rows=groups, a_bytes=known.a_bytes, b_bytes=known.b_bytes)
        for columns, depth in ((widths * inside, op.hidden), (op.hidden, inside))
    )  # fmt: skip
    held = op.tokens * op.top_k if used.all_choices else rows
    activation = MemoryOp("activation", 2.0 * held * widths * inside, known.a_bytes * held * inside, held)
    summing = MemoryOp("copy", 2.0 * held * op.hidden, 2.0 * op.tokens * op.hidden, op.tokens)
    parts = [
        _product(spec, up, product, limit_watts), project_memory(spec, activation, limit_watts=limit_watts),
        _product(spec, down, product, limit_watts), project_memory(spec, summing, limit_watts=limit_watts),
    ]  # fmt: skip
    zeros_bytes = 2.0 * (held - rows) * (widths * inside + op.hidden)
    zeros_seconds = zeros_bytes / (machine.dram_bytes_per_cycle * machine.clock_hz)
    extra_cycles = 0.0
    if used.all_choices and len(product.tiles) == 1:
        extra_cycles = _idle_cycles(op, used, product.tiles[0], groups, others, (widths * inside, op.hidden))
    if used.element_cycles and inside % _VECTOR_ELEMENTS:
        extra_cycles += used.element_cycles * _loaded_elements(down, product.tiles[0])
    extra_seconds = extra_cycles / machine.sm_count / machine.clock_hz
    if known.a_bytes < 2:
        quantize = MemoryOp("quantize", 2.0 * op.tokens * op.hidden, known.a_bytes * op.tokens * op.hidden, op.tokens)
        parts.append(project_memory(spec, quantize, limit_watts=limit_watts))
    shared = f", 1 of {op.ep} x {op.tp} GPUs" if op.ep * op.tp > 1 else ""
    title = f"{op.experts} experts of {op.hidden} x {op.intermediate}, {op.top_k} each for {op.tokens} tokens{shared}"
    kind = f"moe_{'bf16' if known.name == 'fp16' else known.name}"
    band = operator_band(kind, kernels_of(spec), op.tokens)
    return joined(
        title, parts, band.factor, band.validated, band.reason, 1e-9 * (used.routing_ns + used.token_ns * op.tokens) + zeros_seconds + extra_seconds,
    )  # fmt: skip


def _idle_cycles(
    op: MoeOp, used: MoeLibrary, tile: Tile, groups: tuple[int, ...], others: tuple[int, ...], columns: tuple[int, int]
) -> float:
    """Of one SM, that blocks of both launches take beside those of this GPU's rows: the grid has room for all choices and a last tile of every expert, but
    no more rows of tiles than choices where these are fewer than experts or tokens do not fill a tile (vLLM, fused_moe.py, moe_align_block_size.py)."""
    choices = op.tokens * op.top_k
    rows = choices + op.experts * (tile.rows - 1)
    if op.tokens < tile.rows or choices < op.experts:
        rows = min(rows, choices * tile.rows)
    own, zeros = (sum(-(-each // tile.rows) for each in some) for some in (groups, others))
    empty = max(0, -(-rows // tile.rows) - own - zeros)
    cycles = zeros * used.zero_block_cycles + empty * used.empty_block_cycles
    return cycles * sum(-(-each // tile.columns) for each in columns) / tile.blocks


def _loaded_elements(shape: GemmShape, tile: Tile) -> float:
    """Of both operands by all blocks, those beyond the product's end included, which are masked."""
    tiles = shape.tiles(tile.rows) * -(-shape.columns // tile.columns)
    return float(tiles * -(-shape.depth // tile.depth) * (tile.rows + tile.columns) * tile.depth)


def _product(spec: GpuSpec, shape: GemmShape, library: Library, limit_watts: float | None) -> Projection:
    found = project_gemm(spec, shape, library, limit_watts)
    return Projection(
        operator="", gpu=spec.name, seconds=found.seconds, low_seconds=found.seconds, high_seconds=found.seconds,
        validated=False, reason="", limiter=found.limiter, dtype=shape.dtype, flops=shape.flops,
        dram_bytes=found.dram_bytes, l2_bytes=found.l2_bytes,
    )  # fmt: skip
