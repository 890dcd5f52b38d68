"""The prediction interval of a time: between which times a measurement would lie, at which level, and whether that was
validated.

Mental model: the model errs by a factor, whose size depends on what limits the run and on how the GPU is described.
Validation knows the factors of measurements that set nothing; the interval is the predicted time over and times the
factor within which the level's share of the next such measurements should lie, each set of measurements (one program,
one author) counting as one. What sampling left out adds its own claimed error, as independent errors add: in the
logarithm, both at the interval's level. Where nothing alike was ever measured, the widest factor is taken, and
``outside`` says why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.uncertainty.limiters import TENSOR, Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED, Row, Table, row_of, table, widest

_SETTING = re.compile(r"\[(\w[\w.]*)=")
#: What a what-if may change without leaving what was validated: curves are of several clocks.
_VALIDATED_SETTINGS = {"clock_hz"}
#: What the size and speed of a machine are told by: beyond those of all GPUs that are described nothing was ever
#: measured.
_SIZES = {
    "sm_count": lambda spec: spec.sm_count,
    "clock_hz": lambda spec: spec.clock_hz,
    "l2.total_bytes": lambda spec: spec.l2.total_bytes,
    "dram.peak_bytes_per_ns": lambda spec: spec.dram.peak_bytes_per_ns,
}
#: Half-width at 80 % over that at 95 %, at which sampling claims its error, of a normal distribution: its quantiles at
#: 0.9 and 0.975.
_OF_THE_LEVEL = 1.2816 / 1.96


@dataclass(frozen=True)
class Interval:
    """``low_us`` to ``high_us`` around a predicted time, microseconds; ``level_percent``: the share of measurements
    that should lie within;
    ``basis``: whose errors it comes from, in words; ``outside``: why it was not validated, empty where it was."""

    low_us: float
    high_us: float
    level_percent: float
    basis: str
    outside: tuple[str, ...] = ()


def kind_of(gpu: str) -> str:
    """Whether the description called ``gpu`` was set from curves of that very GPU (``fitted``) or not
    (``datasheet``)."""
    return FITTED if gpu.partition("[")[0] in table()["fitted_gpus"] else DATASHEET


def interval_of(
    time_us: float,
    spec: GpuSpec,
    limiter: Limiter,
    *,
    error_us: float = 0.0,
    formats: Collection[str] = (),
    devices: int = 1,
    chained: bool = False,
) -> Interval:
    """The interval of ``time_us``, predicted on ``spec`` for a run that ``limiter`` limits. ``error_us``: half-width at
    95 % that sampling claims; ``formats``: of what it multiplies on tensor cores (names of
    :class:`gpusim.trace.layout.MatrixType`); ``devices``: GPUs that it runs on; ``chained``: it is one of a chain of
    programmatic dependent launches, which overlap.

    Source of the factors: ``intervals.json``, by ``tools/write_intervals.py`` from ``traces/residuals``."""
    known = table()
    row = row_of(kind_of(spec.name), TENSOR if formats else limiter)
    reasons = tuple(_outside(spec, row, formats, devices, chained, known))
    if reasons:
        row = widest()
    share = _OF_THE_LEVEL * math.log1p(error_us / time_us) if time_us > 0 else 0.0
    factor = math.exp(math.hypot(math.log(row["factor"]), share))
    basis = (
        f"{row['basis']}: {row['sets']} sets, {row['kernels']} kernels, {row['series']} series, {row['points']} points"
    )
    return Interval(time_us / factor, time_us * factor, known["level_percent"], basis, reasons)


def _outside(
    spec: GpuSpec, row: Row, formats: Collection[str], devices: int, chained: bool, known: Table
) -> Iterator[str]:
    """Why nothing like this was ever measured."""
    capability = "{}.{}".format(*spec.capability)
    if capability not in known["architectures"]:
        yield f"nothing was measured on compute capability {capability}"
    elif capability in known["missed"]:
        yield f"on compute capability {capability} fewer than four of five measurements lay within such intervals"
    changed = [key for key in _SETTING.findall(spec.name) if key not in _VALIDATED_SETTINGS]
    if changed:
        yield f"{', '.join(changed)} of the description changed"
    elif spec.name.partition("[")[0] not in list_gpus():
        yield from _beyond(spec)
    new = sorted(set(formats) - set(known["tensor"].get(capability, ())))
    if new:
        yield f"no measured kernel used tensor cores for {' and '.join(new)} on compute capability {capability}"
    if row["coarser"]:
        of = "few kernels on tensor cores" if formats else f"few {row['limiter']}-bound launches"
        yield f"too {of} were measured, or too many lay outside of what the others say"
    if devices > 1:
        yield "no measured run used several GPUs"
    if chained:
        yield "no measured run overlapped programmatic dependent launches"


def _beyond(spec: GpuSpec) -> Iterator[str]:
    """In what a GPU of the user's own is larger, faster, smaller or slower than all that are described; they are read
    one by one, until two of them have it between them."""
    for key, size in _SIZES.items():
        value = float(size(spec))
        lowest, highest = math.inf, -math.inf
        for name in list_gpus():
            described = _sizes_of(name)[key]
            lowest, highest = min(lowest, described), max(highest, described)
            if lowest <= value <= highest:
                break
        if value > highest:
            yield f"{key} {value:.9g} is above every described GPU's, of which the most is {highest:.9g}"
        elif value < lowest:
            yield f"{key} {value:.9g} is below every described GPU's, of which the least is {lowest:.9g}"


@cache
def _sizes_of(name: str) -> dict[str, float]:
    """Each of ``_SIZES`` of a built-in GPU."""
    spec = load_gpu(name)
    return {key: float(size(spec)) for key, size in _SIZES.items()}
