"""Old against new: pairs of launches, a verdict on each, and why.

Mental model: launches pair by kernel, shape and index (traces of two folders by file name or number; two
single kernels by position). A simulation repeats exactly, so a difference is real; whether it matters is the
threshold's question: it must exceed a share of the old cycles and a number of cycles, both (of the time, where the
clocks differ). AMBIGUOUS is a pair of launches that do not visibly do the same work (or measurements that do not settle
the question: :mod:`gpusim.regress.measured`). A launch that only one side has is NO-DATA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpusim.compare.error import Verdict
from gpusim.regress.attribution import Attribution, attribute
from gpusim.regress.comparand import Comparand, ComparedLaunch
from gpusim.regress.gpu_changes import FigureChange, differing
from gpusim.regress.measured import judge_rows
from gpusim.regress.outcome import SIMULATED, Outcome, against
from gpusim.regress.thresholds import Thresholds

_NUMBER = re.compile(r"\d+(?=\.)")


def judge(base: Comparand, head: Comparand, thresholds: Thresholds) -> list[Outcome]:
    """An outcome for each launch of either side, in the order of ``base``, then what only ``head`` has."""
    outcomes = [_simulated(pair, thresholds) for pair in pair_launches(base, head)]
    return outcomes + judge_rows(base.measurements, head.measurements, thresholds)


def pair_launches(base: Comparand, head: Comparand) -> list[tuple[ComparedLaunch | None, ComparedLaunch | None]]:
    """Launches of both sides that belong together."""

    folders = base.folder and head.folder
    old, new = ({(item.file,) if folders else item.key: item for item in side.items} for side in (base, head))
    if not old.keys() & new.keys() and len(base.items) == len(head.items):
        return list(zip(base.items, head.items, strict=True))
    found = {name: new.pop(name, None) for name in old}
    if folders:  # a program's traces are numbered: a kernel that was renamed keeps its number
        numbered = {_NUMBER.match(item.file)[0]: name for name, item in new.items() if _NUMBER.match(item.file)}
        for name, item in old.items():
            number = _NUMBER.match(item.file)
            if found[name] is None and number and number[0] in numbered:
                found[name] = new.pop(numbered.pop(number[0]))
    pairs: list[tuple[ComparedLaunch | None, ComparedLaunch | None]] = [
        (item, found[name]) for name, item in old.items()
    ]
    return pairs + [(None, item) for item in new.values()]


def _simulated(pair: tuple[ComparedLaunch | None, ComparedLaunch | None], thresholds: Thresholds) -> Outcome:
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
    verdict, reason = against(before, after, thresholds, unit)
    if (old.record.kernel, old.record.shape) != (new.record.kernel, new.record.shape):
        reason += f", BASE is {':'.join(filter(None, (old.record.kernel, old.record.shape)))}"
    other_work = _other_work(old, new)
    if other_work and verdict != Verdict.SAME:
        verdict, reason = Verdict.AMBIGUOUS, f"{reason}, but {other_work}"
    figures = differing(old.figures, new.figures)
    attribution = attribute(old.record, new.record)
    causes = tuple(_causes(old, new, attribution, figures))
    return Outcome(*facts, before, after, verdict, reason, causes, (old, new), attribution, figures)


def _other_work(old: ComparedLaunch, new: ComparedLaunch) -> str:
    """Why the two launches may not do the same work; empty where they visibly do."""
    a, b = old.record, new.record
    if a.kernel == b.kernel and a.shape and a.shape == b.shape:
        return ""
    threads = [r.grid[0] * r.grid[1] * r.grid[2] * r.block[0] * r.block[1] * r.block[2] for r in (a, b)]
    if threads[0] != threads[1]:
        return f"BASE launches {threads[0]} threads and HEAD {threads[1]}: they may not do the same work"
    return ""


def _causes(
    old: ComparedLaunch, new: ComparedLaunch, attribution: Attribution, figures: tuple[FigureChange, ...]
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
    other_model = bool(old.model and new.model) and old.model != new.model
    same_code = not attribution.changed and a.cubin_hash == b.cubin_hash
    # Another gpusim may write the same trace in another form.
    if same_code and not other_model and a.trace_hash and b.trace_hash and a.trace_hash != b.trace_hash:
        yield "paths or addresses"
    if other_model:
        yield "gpusim's model"
