"""How two recordings of production differ: what is new, gone, slower, faster, launched more or less.

Mental model: both are grouped by the same columns, and each group is asked whether its share of the launches and the
time of a launch are the same in both (:mod:`gpusim.production.significance`). A difference is told where it is both
significant after correction and larger than a threshold: with a million launches any difference is significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.production.amounts import Amount, amount_of, grouped, share_percent
from gpusim.production.columns import NamedTotal, columns_of, key_of
from gpusim.production.significance import devices_p, durations_p, holm, share_p

BY = ("kernel",)
ALPHA = 0.01
#: Of a mean time or of a share of launches. guess: clocks and inputs of one program differ by some percent from day to
#: day
THRESHOLD = 0.05
_NOTHING = Amount()
_Device = tuple[str, int]


@dataclass(frozen=True)
class Difference:
    """A group in both recordings. ``launches_p`` and ``time_p`` are adjusted by Holm's method; None: could not be
    asked."""

    key: tuple[str, ...]
    before: Amount
    after: Amount
    shares: tuple[float, float]
    launch_shares: tuple[float, float]
    launches_p: float | None
    time_p: float | None
    drawn: str
    verdict: str


def differences(
    before: Sequence[NamedTotal], after: Sequence[NamedTotal], by: Sequence[str] = BY, alpha: float = ALPHA,
    threshold: float = THRESHOLD,
) -> list[Difference]:  # fmt: skip
    """Every group of either, those whose share of time changed most first."""
    columns = columns_of(by)
    wholes = amount_of(before), amount_of(after)
    groups = grouped(before, columns), grouped(after, columns)
    devices = _of_devices(before, columns), _of_devices(after, columns)
    keys = list(dict.fromkeys((*groups[0], *groups[1])))
    drawn = [_drawn(devices[0].get(key, {}), devices[1].get(key, {})) for key in keys]
    raw: list[float | None] = []
    for key, each in zip(keys, drawn):
        one, two = groups[0].get(key, _NOTHING), groups[1].get(key, _NOTHING)
        raw += _asked(one, two, wholes, each)
    adjusted = holm(raw)
    found = []
    for at, key in enumerate(keys):
        one, two = groups[0].get(key, _NOTHING), groups[1].get(key, _NOTHING)
        launches_p, time_p = adjusted[2 * at], adjusted[2 * at + 1]
        shares = tuple(share_percent(amount, whole) for amount, whole in zip((one, two), wholes))
        launch_shares = tuple(
            100.0 * amount.launches / whole.launches if whole.launches else 0.0
            for amount, whole in zip((one, two), wholes)
        )
        verdict = _verdict(one, two, launch_shares, launches_p, time_p, alpha, threshold)
        unit = "devices" if drawn[at] is not None else "launches"
        found.append(Difference(key, one, two, _pair(shares), _pair(launch_shares), launches_p, time_p, unit, verdict))
    return sorted(found, key=lambda d: (-abs(d.shares[1] - d.shares[0]), d.key))


def difference_records(found: Iterable[Difference], by: Sequence[str] = BY) -> list[dict[str, Any]]:
    """A row a difference; what is not known or could not be asked is ""."""
    columns = columns_of(by)
    return [
        dict(zip(columns, each.key))
        | {
            "verdict": each.verdict,
            "share_before_percent": each.shares[0],
            "share_after_percent": each.shares[1],
            "launches_before_percent": each.launch_shares[0],
            "launches_after_percent": each.launch_shares[1],
            "mean_before_us": _us(each.before.mean_ns),
            "mean_after_us": _us(each.after.mean_ns),
            "mean_change_percent": _or_nothing(_change(each.before.mean_ns, each.after.mean_ns)),
            "launches_p": _or_nothing(each.launches_p),
            "time_p": _or_nothing(each.time_p),
            "drawn": each.drawn,
        }
        for each in found
    ]


def _of_devices(
    rows: Iterable[NamedTotal], columns: Sequence[str]
) -> dict[tuple[str, ...], dict[_Device, tuple[Amount, Amount]]]:
    """Of each group and each device: its amount, and that of the whole device."""
    parts: dict[tuple[str, ...], dict[_Device, Amount]] = {}
    wholes: dict[_Device, Amount] = {}
    for row in rows:
        what = row.total.what
        if what.device or what.rank >= 0:
            device = (what.device, what.rank)
            parts.setdefault(key_of(row, columns), {}).setdefault(device, Amount()).add(row)
            wholes.setdefault(device, Amount()).add(row)
    return {
        key: {device: (by.get(device, _NOTHING), whole) for device, whole in wholes.items()}
        for key, by in parts.items()
    }


_Drawn = tuple[list[float], list[float], list[float], list[float]]


def _drawn(
    before: Mapping[_Device, tuple[Amount, Amount]], after: Mapping[_Device, tuple[Amount, Amount]]
) -> _Drawn | None:
    """Shares of launches before and after, logarithms of mean times before and after, a device each; None with too
    few."""
    if not before or not after:
        return None
    shares = [
        [part.launches / whole.launches for part, whole in side.values() if whole.launches] for side in (before, after)
    ]
    times = [[math.log(part.mean_ns) for part, _ in side.values() if part.mean_ns] for side in (before, after)]
    return (*shares, *times) if devices_p(*shares) is not None else None  # type: ignore[return-value]


def _asked(one: Amount, two: Amount, wholes: tuple[Amount, Amount], drawn: _Drawn | None) -> list[float | None]:
    if drawn is not None:
        return [devices_p(drawn[0], drawn[1]), devices_p(drawn[2], drawn[3])]
    whole = wholes[0].launches, wholes[1].launches
    return [share_p((one.launches, two.launches), whole), durations_p(one.bins, two.bins)]


def _verdict(
    one: Amount, two: Amount, shares: Sequence[float], launches_p: float | None, time_p: float | None, alpha: float, threshold: float
) -> str:  # fmt: skip
    """``new`` and ``gone`` where the share of launches says that it is no accident; times go before numbers."""
    often = launches_p is not None and launches_p < alpha
    if not one.launches or not two.launches:
        kind = "new" if two.launches else "gone"
        return kind if often else f"{kind}, may be chance"
    change = _change(one.mean_ns, two.mean_ns)
    if change is not None and time_p is not None and time_p < alpha and abs(change) >= 100 * threshold:
        return "slower" if change > 0 else "faster"
    if often and abs(shares[1] / shares[0] - 1) >= threshold:
        return "more often" if shares[1] > shares[0] else "less often"
    return ""


def _change(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else 100.0 * (after / before - 1)


def _pair(values: Sequence[float]) -> tuple[float, float]:
    return values[0], values[1]


def _us(value: float | None) -> Any:
    return "" if value is None else value / 1000


def _or_nothing(value: float | None) -> Any:
    return "" if value is None else value
