"""The prediction interval of a time: between which times a measurement would lie, at which level, and whether that was validated.

Mental model: the model errs by a factor, whose size depends on what limits the run and on how the GPU is described. Validation knows the
factors of measurements that set nothing; the interval is the predicted time over and times the factor within which the level's share of
them lay, each set of measurements (one program, one author) counting as one. What sampling left out adds its own claimed error, as independent errors
add. Where nothing alike was ever measured, the widest factor is taken, and ``outside`` says why.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gpusim.gpus.spec import GpuSpec
from gpusim.uncertainty.limiters import Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED, row_of, table, widest

_SETTING = re.compile(r"\[(\w[\w.]*)=")
#: What a what-if may change without leaving what was validated: curves are of several clocks.
_VALIDATED_SETTINGS = {"clock_hz"}


@dataclass(frozen=True)
class Interval:
    """``low_us`` to ``high_us`` around a predicted time, microseconds; ``level_percent``: the share of measurements that should lie within;
    ``basis``: whose errors it comes from, in words; ``outside``: why it was not validated, empty where it was."""

    low_us: float
    high_us: float
    level_percent: float
    basis: str
    outside: tuple[str, ...] = ()


def kind_of(gpu: str) -> str:
    """Whether the description called ``gpu`` was set from curves of that very GPU (``fitted``) or not (``datasheet``)."""
    return FITTED if gpu.partition("[")[0] in table()["fitted_gpus"] else DATASHEET


def interval_of(
    time_us: float,
    spec: GpuSpec,
    limiter: Limiter,
    *,
    error_us: float = 0.0,
    tensor: bool = False,
    devices: int = 1,
    overlapped: bool = False,
) -> Interval:
    """The interval of ``time_us``, predicted on ``spec`` for a run that ``limiter`` limits. ``error_us``: half-width that sampling claims;
    ``tensor``: it computes on tensor cores; ``devices``: GPUs that it runs on; ``overlapped``: it began before the
    launch before it had ended.

    Source of the factors: ``intervals.json``, written by ``tools/write_intervals.py`` from ``traces/residuals``."""
    known = table()
    row = row_of(kind_of(spec.name), limiter)
    reasons = tuple(_outside(spec, tensor, devices, overlapped, known["architectures"]))
    if row["coarser"]:
        reasons += (f"too few {limiter}-bound launches were measured",)
    if reasons:
        row = widest()
    share = error_us / time_us if time_us > 0 else 0.0
    factor = math.exp(math.hypot(math.log(row["factor"]), share))
    basis = (
        f"{row['basis']}: {row['sets']} sets, {row['kernels']} kernels, {row['series']} series, {row['points']} points"
    )
    return Interval(time_us / factor, time_us * factor, known["level_percent"], basis, reasons)


def _outside(spec: GpuSpec, tensor: bool, devices: int, overlapped: bool, architectures: list[str]) -> list[str]:
    """Why nothing like this was ever measured."""
    reasons = []
    capability = "{}.{}".format(*spec.capability)
    if capability not in architectures:
        reasons.append(f"nothing was measured on compute capability {capability}")
    changed = [key for key in _SETTING.findall(spec.name) if key not in _VALIDATED_SETTINGS]
    if changed:
        reasons.append(f"{', '.join(changed)} of the description changed")
    if tensor:
        reasons.append("no measured kernel used tensor cores")
    if devices > 1:
        reasons.append("no measured run used several GPUs")
    if overlapped:
        reasons.append("no measured launches overlapped")
    return reasons
