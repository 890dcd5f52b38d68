"""What one event costs on a generation of GPUs: the files beside this one, read and checked.

Mental model: an energy figure belongs to the process and the design of a generation, a power limit to a board. Each
figure says where it comes from and of what kind that evidence is. A generation without a file takes another's figures
(:data:`LIKE`), and all of them are guesses then. A file may say which other's figures it has but for its own
(``like``).
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec

_FOLDER = Path(__file__).parent
_LANES = 32  # of a warp
KINDS = ("measured", "fitted", "published", "guess")
#: Generations without a file -> whose figures they take.
LIKE = {"ada": "hopper", "turing": "ampere", "volta": "ampere"}
#: Generation, capability -> whose figures are taken (a guess): a GB202 has neither the HBM nor the tensor memory that
#: Blackwell's figures are of.
_FIGURES_LIKE = {("blackwell", 12): "ada"}
#: Of generations that take another's figures: served networks on Ada's boards and on an RTX PRO 6000, which are long
#: runs, are no faster than these say (traces/library/served_elsewhere.csv, served_models.csv).
_LONG_SHARE_ELSEWHERE = {
    "value": 1.0,
    "kind": "guess",
    "source": "no runs shorter than the control's average are known",
}
#: Generation -> capabilities whose GPUs are made in another process than the rest of it, and the file of what these
#: take otherwise.
_OWN_PROCESS = {"ampere": (((8, 6), (8, 7)), "ampere_ga10x")}


@dataclass(frozen=True)
class EnergyFigures:
    """Picojoules an event (``_pj``; nanojoules: ``_nj``), watts, degrees Celsius and kelvins, at the described clock;
    what each is stands in the files. ``clock_exponent``: dynamic power goes with the clock to this power.
    ``settle_ms``: how long a run of launches lasts before the board's limit holds half of it, ``run_launches``: of the
    runs that its generation's rows are of. ``control_ms``: over which the board's control averages; ``long_share``: of
    the dynamic power that the limit leaves runs shorter than that, what it leaves longer ones."""

    constant_watts: float
    leakage_watts: float
    static_sms: float
    leakage_celsius: float
    leakage_doubling_kelvin: float
    busy_watts: float
    clock_exponent: float
    settle_ms: float
    run_launches: float
    control_ms: float
    long_share: float
    issue_pj: float
    lane_register_pj: float
    lane_integer_pj: float
    lane_fp16_pj: float
    lane_fp32_pj: float
    lane_fp64_pj: float
    lane_special_pj: float
    vector_flop_pj: float
    block_start_nj: float
    tensor_fp64_flop_pj: float
    tensor_tf32_flop_pj: float
    tensor_bf16_flop_pj: float
    tensor_fp16_flop_pj: float
    tensor_fp8_flop_pj: float
    tensor_int8_flop_pj: float
    tensor_fp4_flop_pj: float
    shared_byte_pj: float
    l1_byte_pj: float
    l2_byte_pj: float
    dram_byte_pj: float
    link_byte_pj: float

    def tensor_flop_pj(self, dtype: str) -> float:
        """Of an operation of a product with operands of ``dtype`` ("bf16", "nvfp4"), on tensor cores but for "fp32".
        Raises SpecError for one that is not known."""
        name = DTYPES.get(dtype)
        if name is None:
            raise SpecError(f"no energy is known for products of {dtype!r}: known are {', '.join(DTYPES)}")
        return getattr(self, f"{name}_flop_pj")

    @property
    def fma_flop_pj(self) -> float:
        """Of an operation of a product on FMA pipes, an FFMA of a lane being two: its share of the issue, its registers
        and its arithmetic, as an exact launch is charged."""
        return (self.issue_pj / _LANES + self.lane_register_pj + self.lane_fp32_pj) / 2

    def leakage_watts_at(self, celsius: float | None = None) -> float:
        """Leakage of a die of that temperature; None: of the one that the figure belongs to."""
        if celsius is None:
            return self.leakage_watts
        if not -50.0 <= celsius <= 150.0:
            raise SpecError(f"a die's temperature is {celsius} degrees Celsius, not between -50 and 150")
        return self.leakage_watts * 2.0 ** ((celsius - self.leakage_celsius) / self.leakage_doubling_kelvin)


#: What operands are called -> whose figure they take.
DTYPES = {
    "fp64": "tensor_fp64", "tf32": "tensor_tf32", "fp32": "fma", "bf16": "tensor_bf16", "fp16": "tensor_fp16", "fp8": "tensor_fp8",
    "mxfp8": "tensor_fp8", "fp8_block": "tensor_fp8", "int8": "tensor_int8", "fp4": "tensor_fp4", "nvfp4": "tensor_fp4", "mxfp4": "tensor_fp4",
    "int4": "tensor_fp4",
}  # fmt: skip


@functools.cache
def figures_of(generation: str) -> EnergyFigures:
    """The figures of a generation ("hopper"), or of the one that it is taken to be like. Raises SpecError where neither
    is known, or a file is wrong."""
    table = _table(generation)
    return EnergyFigures(**{name: each["value"] for name, each in table.items()})


def has_own_figures(generation: str) -> bool:
    """Whether the generation has figures of its own."""
    return generation.isidentifier() and (_FOLDER / f"{generation}.toml").is_file()


def knows_energy(spec: GpuSpec) -> bool:
    """Whether there are figures for the GPU, its generation's own or another's."""
    generation = energy_generation(spec)
    return has_own_figures(generation) or generation in LIKE


def evidence_of(generation: str) -> dict[str, tuple[float, str, str]]:
    """Name of each figure -> value, kind of evidence ("guess" for all that are another generation's), source."""
    table = _table(generation)
    if has_own_figures(generation):
        return {name: (each["value"], each["kind"], each["source"]) for name, each in table.items()}
    of = LIKE[generation]
    return {name: (each["value"], "guess", f"as {of}: {each['source']}") for name, each in table.items()}


def figures_for(spec: GpuSpec) -> EnergyFigures:
    """The figures of a GPU: its generation's, with what it takes at rest, and what busy SMs take beside their events,
    by its board or, where that says nothing, by its SMs. Raises SpecError as :func:`figures_of` does."""
    return _figures_for(energy_generation(spec), spec.sm_count, spec.board.resting_watts)


def energy_generation(spec: GpuSpec) -> str:
    """The generation whose figures a GPU takes."""
    capabilities, other = _OWN_PROCESS.get(spec.generation, ((), ""))
    if spec.capability in capabilities:
        return other
    return _FIGURES_LIKE.get((spec.generation, spec.capability[0]), spec.generation)


@functools.cache
def _figures_for(generation: str, sm_count: int, resting_watts: float) -> EnergyFigures:
    of = figures_of(generation)
    share = sm_count / of.static_sms
    resting = resting_watts / (of.constant_watts + of.leakage_watts) if resting_watts else share
    return replace(
        of, constant_watts=of.constant_watts * resting, leakage_watts=of.leakage_watts * resting, busy_watts=of.busy_watts * resting,
    )  # fmt: skip


@functools.cache
def _table(generation: str) -> dict[str, dict]:
    name = generation if has_own_figures(generation) else LIKE.get(generation, "")
    if not name:
        known = sorted(path.stem for path in _FOLDER.glob("*.toml"))
        raise SpecError(f"no energy is known for generation {generation!r}: known are {', '.join(known)}")
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    if of := table.pop("like", ""):
        table = _table(of) | table
    if name != generation:
        table["long_share"] = _LONG_SHARE_ELSEWHERE
    expected = {each.name for each in fields(EnergyFigures)}
    if set(table) != expected:
        raise SpecError(f"{name}.toml: missing or unknown: {', '.join(sorted(set(table) ^ expected))}")
    for key, row in table.items():
        if set(row) != {"value", "kind", "source"} or row["kind"] not in KINDS:
            raise SpecError(f"{name}.toml, {key}: wants value, source and a kind of {', '.join(KINDS)}")
        value = row["value"]
        if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise SpecError(f"{name}.toml, {key} is {value!r}, not a number of at least 0")
    return table
