"""Whose kernels experts have, and what these cost: by generation, framework and number format.

Mental model: kernels of experts are few families (Triton's, Marlin's, CUTLASS's); what a family costs beside its
arithmetic is the same times and shares on every GPU, so that its figures stand once; which tile it takes, and what more
it goes over, is the framework's. A format or framework without rows has the kernels of the one that it is taken to be
like, and says so. Table: ``moe.toml``.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.library import FRAMEWORKS, LIKE, RATES, Library, Tile, library_of
from gpusim.tile.machine import warps_share
from gpusim.tile.moe_tiles import searched_tile

_FILE = Path(__file__).with_name("moe.toml")
#: Tables of moe.toml that are no generations.
_FOLLOWED, _ALIKE, _FAMILIES = "followed", "alike", "kernels"
#: Figures of moe.toml that are not the products'.
_OWN = (
    "routing_ns", "routing_cycles", "token_ns", "choices", "empty_block_cycles", "zero_block_cycles", "element_cycles", "searched", "clock_mhz", "of_warps", "tuned_evenly",
    "splits", "widened", "shared_out_ns", "expanded", "waves", "convert_cycles", "choice_ns", "half_line_share", "scaled_choice_ns", "scale_row_ns", "steps_ns",
    "waiting_steps", "aligned_share", "sum_one_cycles", "sum_more_cycles",
)  # fmt: skip
#: What a row says of its framework's software, which its measured times did not set.
_SOFTWARE = (
    "choices",
    "searched",
    "rule",
    "element_cycles",
    "tuned_evenly",
    "splits",
    "widened",
    "expanded",
    "waves",
    "waiting_steps",
    "earlier_rule",
    "aligned_share",
)
#: Figures in cycles that are times at ``clock_mhz``.
_TIMES = ("block_start_cycles", "epilogue_cycles")
_OWN_TIMES = ("empty_block_cycles", "zero_block_cycles", "convert_cycles")
#: Of L2: a step that takes less of each row of the weights leaves part of the line for the next step.
_LINE_BYTES, _WIDE_BYTES = 128, 2
_MOST_SHARE = 0.995
#: Choices of a token that vLLM has kernels to sum for.
_SUMMED_CHOICES = (2, 3, 4)
#: Experts for each choice from which on vLLM does not align choices (fused_moe.py, SPARSITY_FACTOR).
_CHOICES_APART = 4
#: Of a tile of scales that tensor cores take (PTX ISA, tcgen05.mma, block scaling: 128 x 4).
SCALE_ROWS = 128
#: What one block of TensorRT-LLM's sorts: a thread a token, choices and bits of an expert's number that are compiled
#: (moe_kernels.cu, fusedBuildExpertMapsSortFirstToken).
_BLOCK_TOKENS, _BLOCK_CHOICES, _BLOCK_EXPERTS = 256, (1, 2, 4, 6, 8), 510


@dataclass(frozen=True)
class TileRule:
    """``tile`` where no bound is exceeded: of tokens, of tokens an expert of this GPU, of its rows (tokens that chose
    it, of all GPUs' tokens) on average."""

    tile: Tile
    most_tokens: float = math.inf
    most_tokens_per_expert: float = math.inf
    most_rows_per_expert: float = math.inf

    def holds(self, tokens: int, experts: int, top_k: int) -> bool:
        """For so many tokens, of which ``top_k`` choices each are counted over this GPU's ``experts`` (as vLLM and
        SGLang count them)."""
        return (
            tokens <= self.most_tokens
            and tokens <= self.most_tokens_per_expert * experts
            and tokens * top_k <= self.most_rows_per_expert * experts
        )


@dataclass(frozen=True)
class MoeLibrary:
    """``kind``: format and framework whose rows these are, as errors are recorded by. ``product``: of the grouped
    products; ``routing_ns``: the kernels that sort choices by expert, ``routing_cycles``: of them, that wait for their
    own instructions, and ``token_ns`` more for each token. ``choices``: which rows kernels go over: "own", those of
    this GPU's experts; "all", those of other GPUs' experts too, which hold zeros; "dispatched", all of the tokens that
    chose one of this GPU's experts; "clamped", the same, of which those for other GPUs' experts are worked on as this
    GPU's first expert's. Of "all" and "dispatched" the grid has room for every expert's last tile, needed or not: a
    block without work takes a place for ``empty_block_cycles``, and ``zero_block_cycles`` if its rows are another
    GPU's. ``element_cycles``: of an SM for each element of a tile's operands where rows that are no multiple of 16
    elements make lanes load them one by one (Triton's specialisation of arguments; 0: they never do). ``rule``: of
    which the first that holds is taken, whatever the shape; without any the tile is chosen as for dense products.
    ``earlier_rule``: of versions of the framework before its rule changed (none: it is the same). ``searched``: 1
    where tiles of a search come first (:mod:`gpusim.tile.moe_tiles`). ``clock_mhz``: of the GPU at
    which cycles of a block's start, its epilogue and blocks without work are counted: they keep their time on others
    (0: their cycles). ``of_warps``: 1 where products are of warps (mma.sync), whatever newer units the GPU has, and
    shares of the peak are of theirs. ``tuned_evenly``: 1 where the tile is the one that is fastest if all experts have
    as many rows, as a tuner tries them, whatever they have then. ``splits``: 1 where the depth may be split though the
    tile follows from the rule. ``widened``: 1 where weights of few bits lie in memory as 16. ``shared_out_ns``: more
    kernels where other GPUs have some of the experts. ``expanded``: 1 where a kernel of its own writes each token's row
    once for every choice before the first product; otherwise products gather rows. ``waves``: 1 where the tile fills
    the fewest waves (:mod:`gpusim.tile.moe_waves`). ``convert_cycles``: that a warp waits for each 128 elements of rows
    that a kernel of its own converts before each product (0: conversions are streams). ``choice_ns``: of kernels that
    give every choice of this GPU's experts a block of its own (expansion, activation), beside what they move.
    ``scaled_choice_ns``: the same where those kernels write scales that the tensor cores take, which lie in tiles of
    :data:`SCALE_ROWS` rows; ``scale_row_ns``: of each row of the tiles of all of this GPU's experts, which they go over
    to clear what no choice fills.
    ``half_line_share``: of ``dram_share``, that products reach whose step takes less than a line of L2 of each row of
    the weights. ``steps_ns``: of the kernels that sort choices in three steps, where one block cannot.
    ``waiting_steps``: of a tile's stages, whose loads are not asked for while a step is worked on. ``aligned_share``:
    of the kernels that sort choices, what those take that align them to tiles, which are left out where choices are so
    few that a tile would hardly have two (:meth:`sorts`). ``sum_one_cycles``, ``sum_more_cycles``: of an SM for each
    element of the choices' results beside its bytes, where PyTorch's own kernel sums a token's one choice, or more than
    there are kernels for."""

    kind: str
    product: Library
    token_ns: float
    routing_ns: float = 0.0
    choices: str = "own"
    empty_block_cycles: float = 0.0
    zero_block_cycles: float = 0.0
    element_cycles: float = 0.0
    rule: tuple[TileRule, ...] = ()
    earlier_rule: tuple[TileRule, ...] = ()
    searched: int = 0
    clock_mhz: float = 0.0
    of_warps: int = 0
    tuned_evenly: int = 0
    routing_cycles: float = 0.0
    splits: int = 0
    widened: int = 0
    shared_out_ns: float = 0.0
    expanded: int = 0
    waves: int = 0
    convert_cycles: float = 0.0
    choice_ns: float = 0.0
    half_line_share: float = 1.0
    scaled_choice_ns: float = 0.0
    scale_row_ns: float = 0.0
    steps_ns: float = 0.0
    waiting_steps: int = 0
    aligned_share: float = 0.0
    sum_one_cycles: float = 0.0
    sum_more_cycles: float = 0.0

    def on(self, spec: GpuSpec) -> MoeLibrary:
        """The same at the clock of ``spec`` and, of kernels of warps, with shares of its newest units' peak."""
        times = spec.clock_hz / 1e6 / self.clock_mhz if self.clock_mhz else 1.0
        share = warps_share(spec) if self.of_warps else 1.0
        changed: dict[str, float] = {name: getattr(self.product, name) * times for name in _TIMES}
        changed |= {name: min(_MOST_SHARE, getattr(self.product, name) * share) for name in RATES}
        own = {name: getattr(self, name) * times for name in _OWN_TIMES}
        # What feeds warps is alike where the newer units beside them are not.
        changed["fed_bytes_per_cycle"] = self.product.fed_bytes_per_cycle if share == 1.0 else 1.0
        return replace(self, product=replace(self.product, **changed), clock_mhz=0.0, of_warps=0, **own)

    def rows_ns(self, choices: int, experts: int, tensor_scaled: bool) -> float:
        """Of kernels with a block for each of ``choices`` of this GPU's ``experts``, beside what they move."""
        if not tensor_scaled:
            return self.choice_ns * choices
        return max(self.choice_ns, self.scaled_choice_ns) * choices + self.scale_row_ns * SCALE_ROWS * experts

    def sum_cycles(self, top_k: int) -> float:
        """Of an SM for each element of the results of ``top_k`` choices, beside its bytes. vLLM has kernels of its own
        that sum two to four (csrc/moe/moe_align_sum_kernels.cu, moe_sum)."""
        if top_k in _SUMMED_CHOICES:
            return 0.0
        return self.sum_one_cycles if top_k == 1 else self.sum_more_cycles

    def sorts(self, ep: int, choices: int, experts: int, earlier: bool) -> float:
        """Share (0 to 1) of the kernels that sort ``choices`` which run: vLLM gives each choice a tile of its own where
        they are no more than a quarter of the experts, all of which are on one GPU (fused_moe.py,
        naive_block_assignment)."""
        few = ep == 1 and _CHOICES_APART * choices <= experts and not earlier
        return 1.0 - self.aligned_share * few

    def sorting_ns(self, tokens: int, experts: int, top_k: int) -> float:
        """More than one block takes that sorts all choices for this GPU's ``experts``."""
        fits = tokens <= _BLOCK_TOKENS and top_k in _BLOCK_CHOICES and experts <= _BLOCK_EXPERTS
        return 0.0 if fits else self.steps_ns

    def product_for(
        self, spec: GpuSpec, tokens: int, experts: int, inside: int, top_k: int = 1, earlier: bool = False
    ) -> Library:
        """The products' kernels, with the one tile that a search or the rule names; ``earlier``: by
        ``earlier_rule``, where there is one."""
        tile = searched_tile(spec, experts, inside, tokens) if self.searched else None
        if tile is None:
            rule = (earlier and self.earlier_rule) or self.rule
            tile = next((each.tile for each in rule if each.holds(tokens, experts, top_k)), None)
        if tile is None:
            return self.product
        split_k_cycles = self.product.split_k_cycles if self.splits else math.inf
        tile = replace(tile, stages=max(1, tile.stages - self.waiting_steps))
        product = replace(self.product, tiles=(tile,), split_k_cycles=split_k_cycles)
        if tile.depth * _WIDE_BYTES < _LINE_BYTES:
            product = replace(product, dram_share=product.dram_share * self.half_line_share)
        return product


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def framework_of(dtype: str, framework: str = "") -> str:
    """The framework whose kernels experts of a format have where none is named ("")."""
    followed = _table()[_FOLLOWED]
    return framework or followed.get(dtype) or followed.get(_table()[_ALIKE].get(dtype, ""), FRAMEWORKS[0])


def kind_of(dtype: str, framework: str = "") -> str:
    """What operator_errors.json calls rows of a format and a framework ("": the one that is followed)."""
    followed = framework_of(dtype)
    return f"moe_{dtype}" + f"_{framework}" * (framework not in ("", followed))


@functools.cache
def moe_library_of(
    generation: str, dtype: str = "bf16", framework: str = "", without: str = "", tuned: bool = True
) -> MoeLibrary:
    """The kernels of experts of a GPU generation, or of the one that it is taken to be like
    (:data:`gpusim.tile.library.LIKE`); ``dtype``: a row of the table; ``framework``: "" for the one that is followed;
    ``without``: a generation whose rows set none of the figures, of a family that has such a table; ``tuned``: whether
    the framework's tuner has chosen tiles, where it has one whose first choice is known. Raises SpecError for a
    generation of which nothing is known."""
    table = _table()
    generations = sorted(set(table) - {_FOLLOWED, _ALIKE, _FAMILIES})
    name = generation if generation in generations else LIKE.get(generation, "")
    while name and name not in generations:
        name = LIKE.get(name, "")
    if name not in generations:
        raise SpecError(
            f"no kernels of experts are known for generation {generation!r}: known are {', '.join(generations)}"
        )
    for known in dict.fromkeys((dtype, table[_ALIKE].get(dtype, "bf16"), "bf16")):
        for whose in dict.fromkeys((framework_of(known, framework), framework_of(known))):
            if known in table[name].get(whose, {}):
                return _library(name, known, whose, without, generation == name, tuned)
    raise AssertionError(f"{_FILE.name} has no bf16 of {name}")


def _library(generation: str, dtype: str, framework: str, without: str, of_its_own: bool, tuned: bool) -> MoeLibrary:
    """Of a row that there is, with what its family says, and with what is true ``of_its_own`` generation alone; where
    nothing was ``tuned``, with the products of the row's ``untuned`` family."""
    table = _table()
    row = dict(table[generation][framework][dtype])
    of_generation = row.pop("own", {})
    first = row.pop("untuned", "")
    if first and not tuned:
        row = {key: row[key] for key in (*_OWN, "launch_ns") if key in row and key != "tuned_evenly"}
        row["kernels"] = first
    if of_its_own and not without:
        row |= of_generation
    family = row.pop("kernels", "")
    if family and without:
        row = table[_FAMILIES][family] | row
        software = {key: row[key] for key in _SOFTWARE if key in row}
        row = table[_FAMILIES][f"{family}_without_{without}"] | software
    elif family:
        row = table[_FAMILIES][family] | row
    own = {key: row.pop(key) for key in _OWN if key in row}
    rule, earlier_rule = _rule(row.pop("rule", ())), _rule(row.pop("earlier_rule", ()))
    product = replace(
        library_of(generation, dtype), rule=(), counts_waves=False, fills_waves=False, **({"outside_loads": 0.0} | row)
    )
    return MoeLibrary(kind_of(dtype, framework), product, rule=rule, earlier_rule=earlier_rule, **own)


def _rule(rows: Sequence[dict[str, Any]]) -> tuple[TileRule, ...]:
    return tuple(
        TileRule(
            most_tokens=each.get("most_tokens", math.inf),
            most_tokens_per_expert=each.get("most_tokens_per_expert", math.inf),
            most_rows_per_expert=each.get("most_rows_per_expert", math.inf),
            tile=Tile(**{key: value for key, value in each.items() if not key.startswith("most_")}),
        )
        for each in rows
    )
