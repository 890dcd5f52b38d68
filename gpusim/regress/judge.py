"""Old against new: pairs of launches, a verdict on each, and why.

Mental model: launches pair by kernel, shape and index (traces of two folders by file name; two single kernels by
position). A simulation repeats exactly, so a difference is real; whether it matters is the threshold's question: it
must exceed a share of the old cycles and a number of cycles, both (of the time, where the clocks differ). AMBIGUOUS is a pair of launches that do not visibly
do the same work, or two measurements whose confidence intervals do not settle the question. A launch that only one
side has is NO-DATA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpusim.compare.error import Verdict
from gpusim.regress.attribution import Attribution, attribute
from gpusim.regress.machine import FigureChange, Step, differing
from gpusim.regress.side import Item, Side
from gpusim.silicon.row import Estimate, SiliconRow

MEASURED = "measured"
SIMULATED = "simulated"


@dataclass(frozen=True)
class Thresholds:
    """A difference counts when it exceeds ``percent`` of the old value and, for cycles, ``cycles``."""

    percent: float = 1.0
    cycles: int = 0

    def room(self, base: float, unit: str) -> float:
        """How far from ``base`` a value may be and still be the same."""
        share = self.percent / 100.0 * base
        return max(share, float(self.cycles)) if unit == "cycles" else share


@dataclass(frozen=True)
class Outcome:
    """A launch in both runs, or in one (then ``base`` or ``head`` is None). ``kind``: simulated or measured; ``gpu``: one
    name, or ``OLD to NEW``; ``unit``: cycles or us. ``causes``: what is not the same on both sides (machine code, GPU, gpusim's model, launch).
    ``attribution``, ``figures`` and ``steps`` say where the difference comes from; measurements have none."""

    kind: str
    kernel: str
    shape: str
    launch: int
    gpu: str
    unit: str
    base: float | None
    head: float | None
    verdict: Verdict
    reason: str
    causes: tuple[str, ...] = ()
    items: tuple[Item, Item] | None = None
    attribution: Attribution | None = None
    figures: tuple[FigureChange, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def name(self) -> str:
        """The launch in one text: ``kernel:shape[#index]``, with ``measured`` before it if it is."""
        text = f"{self.kernel}:{self.shape}" if self.shape else self.kernel
        text += f"#{self.launch}" if self.launch else ""
        return text if self.kind == SIMULATED else f"{self.kind} {text}"

    @property
    def cycles_grown(self) -> int | None:
        """Cycles that a simulated HEAD has more, which every split adds up to."""
        return None if self.items is None else self.items[1].record.cycles - self.items[0].record.cycles

    @property
    def change_percent(self) -> float | None:
        """Signed change; positive is slower."""
        if self.base is None or self.head is None:
            return None
        return 100.0 * (self.head - self.base) / self.base if self.base else 0.0


def judge(base: Side, head: Side, thresholds: Thresholds) -> list[Outcome]:
    """An outcome for each launch of either side, in the order of ``base``, then what only ``head`` has."""
    outcomes = [_simulated(pair, thresholds) for pair in pair_items(base, head)]
    return outcomes + [_measured(*pair, thresholds) for pair in _pair_rows(base.measurements, head.measurements)]


def pair_items(base: Side, head: Side) -> list[tuple[Item | None, Item | None]]:
    """Launches of both sides that belong together."""

    def key(item: Item) -> tuple:
        return (item.file,) if base.folder and head.folder else item.key

    old, new = ({key(item): item for item in side.items} for side in (base, head))
    shared = old.keys() & new.keys()
    if not shared and len(base.items) == len(head.items):
        return list(zip(base.items, head.items, strict=True))
    pairs: list[tuple[Item | None, Item | None]] = [(item, new.get(name)) for name, item in old.items()]
    return pairs + [(None, item) for name, item in new.items() if name not in shared]


def _simulated(pair: tuple[Item | None, Item | None], thresholds: Thresholds) -> Outcome:
    old, new = pair
    known = new or old
    assert known is not None
    # Cycles of different clocks are different lengths: such launches are judged by their time.
    unit = "cycles" if len({item.record.clock_hz for item in pair if item}) == 1 else "us"
    gpu = " to ".join(dict.fromkeys(item.record.gpu for item in pair if item))
    facts = (SIMULATED, known.record.kernel, known.record.shape, known.record.launch, gpu, unit)
    if old is None or new is None:
        side = "BASE" if old is None else "HEAD"
        values = (old.record.cycles if old else None, new.record.cycles if new else None)
        return Outcome(*facts, *values, Verdict.NO_DATA, f"{side} has no such launch")
    if unit == "cycles":
        before, after = old.record.cycles, new.record.cycles
    else:
        before, after = old.record.time_us, new.record.time_us
    verdict, reason = _threshold(before, after, thresholds, unit)
    other_work = _other_work(old, new)
    if other_work and verdict != Verdict.SAME:
        verdict, reason = Verdict.AMBIGUOUS, f"{reason}, but {other_work}"
    figures = differing(old.figures, new.figures)
    attribution = attribute(old.record, new.record)
    causes = tuple(_causes(old, new, attribution, figures))
    return Outcome(*facts, before, after, verdict, reason, causes, (old, new), attribution, figures)


def _threshold(before: float, after: float, thresholds: Thresholds, unit: str) -> tuple[Verdict, str]:
    change = after - before
    room = thresholds.room(before, unit)
    percent = f"{100.0 * change / before:+.2f} %" if before else "no time before"
    if abs(change) <= room:
        return Verdict.SAME, "equal" if not change else f"{percent}, within {room:.6g} {unit}"
    verdict = Verdict.SLOWER if change > 0 else Verdict.FASTER
    return verdict, f"{percent}, beyond {room:.6g} {unit}"


def _other_work(old: Item, new: Item) -> str:
    """Why the two launches may not do the same work; empty where they visibly do."""
    a, b = old.record, new.record
    if a.kernel == b.kernel and a.shape and a.shape == b.shape:
        return ""
    threads = [r.grid[0] * r.grid[1] * r.grid[2] * r.block[0] * r.block[1] * r.block[2] for r in (a, b)]
    if threads[0] != threads[1]:
        return f"BASE launches {threads[0]} threads and HEAD {threads[1]}: they may not do the same work"
    return ""


def _causes(
    old: Item, new: Item, attribution: Attribution, figures: tuple[FigureChange, ...]
) -> Iterator[str]:
    """What differs between the two sides, as far as either knows."""
    a, b = old.record, new.record
    if attribution.changed:
        yield f"machine code ({len(attribution.changed)} instructions)"
    elif a.cubin_hash and b.cubin_hash and a.cubin_hash != b.cubin_hash:
        yield "cubin, not its instructions"
    if old.figures and new.figures:
        other_gpu = bool(figures)
    elif a.gpu_hash and b.gpu_hash:
        other_gpu = a.gpu_hash != b.gpu_hash
    else:
        other_gpu = a.gpu != b.gpu
    if other_gpu:
        yield "GPU"
    if (a.grid, a.block, a.shared_bytes) != (b.grid, b.block, b.shared_bytes):
        yield "launch"
    if a.registers_per_thread != b.registers_per_thread:
        yield f"registers ({a.registers_per_thread} to {b.registers_per_thread})"
    same_code = not attribution.changed and a.cubin_hash == b.cubin_hash
    if same_code and a.trace_hash and b.trace_hash and a.trace_hash != b.trace_hash:
        yield "paths or addresses"
    if old.model and new.model and old.model != new.model:
        yield "gpusim's model"


def _pair_rows(
    base: Sequence[SiliconRow], head: Sequence[SiliconRow]
) -> list[tuple[SiliconRow | None, SiliconRow | None]]:
    """Measurements of the same launch on the same GPU in the same state of the caches; the last of each."""
    old, new = ({_row_key(row): row for row in rows} for rows in (base, head))
    pairs: list[tuple[SiliconRow | None, SiliconRow | None]] = [(row, new.get(key)) for key, row in old.items()]
    return pairs + [(None, row) for key, row in new.items() if key not in old]


def _row_key(row: SiliconRow) -> tuple:
    return row.kernel, row.shape, row.launch, row.gpu or row.device_name, row.cache


def _measured(old: SiliconRow | None, new: SiliconRow | None, thresholds: Thresholds) -> Outcome:
    known = new or old
    assert known is not None
    estimates, unit = _estimates(old, new)
    facts = (MEASURED, known.kernel, known.shape, known.launch, known.gpu or known.device_name, unit)
    values = [estimate.median if estimate else None for estimate in estimates]
    before, after = estimates
    if before is None or after is None:
        side = "BASE" if old is None else "HEAD"
        reason = f"{side} has no such measurement" if old is None or new is None else "no unit is measured on both sides"
        return Outcome(*facts, *values, Verdict.NO_DATA, reason)
    causes = ("cubin",) if old and new and old.cubin_hash and new.cubin_hash and old.cubin_hash != new.cubin_hash else ()
    room = thresholds.room(before.median, unit)
    least, most = after.low - before.high, after.high - before.low
    verdict, reason = _threshold(before.median, after.median, thresholds, unit)
    if verdict == Verdict.SAME:
        settled = -room <= least and most <= room
    else:
        settled = least > room if verdict == Verdict.SLOWER else most < -room
    if not settled and (verdict != Verdict.SAME or least > 0 or most < 0):
        verdict = Verdict.AMBIGUOUS
        reason += f", but the confidence intervals allow from {least:+.6g} to {most:+.6g} {unit}"
    return Outcome(*facts, *values, verdict, reason, causes)


def _estimates(
    old: SiliconRow | None, new: SiliconRow | None
) -> tuple[tuple[Estimate | None, Estimate | None], str]:
    """The estimates of both in a unit that both have: cycles before time, since clocks move."""
    for unit, name in (("cycles", "cycles"), ("us", "time_us")):
        pair = tuple(getattr(row, name) if row else None for row in (old, new))
        if all(pair) or (not all((old, new)) and any(pair)):
            return pair, unit
    return (None, None), "us"
