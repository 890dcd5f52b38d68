"""Why a step that was found is one: the outcome that ``gpusim regress`` would give for the points on both sides of it,
and a sentence.

Mental model: a step has a reading before and one after, and each simulated reading carries its launches with what every
warp waited for; so the same attribution explains it that explains two builds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpusim.bisect.compiled import opcode_changes
from gpusim.bisect.find import Found
from gpusim.bisect.reading import Reading
from gpusim.bisect.search import Step
from gpusim.io.percent import signed
from gpusim.regress.comparand import Comparand
from gpusim.regress.explain import sentence, with_steps
from gpusim.regress.judge import judge
from gpusim.regress.outcome import Outcome
from gpusim.regress.thresholds import Thresholds
from gpusim.regress.units import with_units

#: Opcodes in a sentence.
_MOST_OPCODES = 4
_NO_THRESHOLD = Thresholds(0.0, 0)


@dataclass(frozen=True)
class Reason:
    """``sentence`` for a reader in a hurry; ``outcomes`` of the launches, the one that moved most first, where there
    are any; ``opcodes``: (opcode, times before, times after) of machine code that was not run."""

    sentence: str
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    opcodes: tuple[tuple[str, int, int], ...] = ()


def reason_between(before: Reading, after: Reading, labels: tuple[str, str]) -> Reason:
    """Why ``after`` differs from ``before``."""
    if before.launches and after.launches:
        outcomes = judge(Comparand(labels[0], before.launches), Comparand(labels[1], after.launches), _NO_THRESHOLD)
        explained = [with_units(with_steps(outcome)) for outcome in outcomes]
        explained.sort(key=lambda outcome: -abs(outcome.cycles_grown or 0))
        return Reason(sentence(explained[0]), tuple(explained))
    changes = tuple(opcode_changes(before.sass, after.sass))
    parts = [
        f"{name} {before.values[name]:g} to {after.values[name]:g}"
        for name in before.values
        if name != "code" and before.values[name] != after.values.get(name, before.values[name])
    ]
    opcodes = ", ".join(f"{name} {old} to {new}" for name, old, new in changes[:_MOST_OPCODES])
    if opcodes:
        parts.append(f"instructions: {opcodes}")
    if not parts:
        parts.append(
            "the same instructions"
            if before.sass == after.sass
            else "the same opcodes in another order or on other registers"
        )
    return Reason("; ".join(parts) + ".", (), changes)


def summary(found: Found) -> str:
    """What was found, in a sentence or two."""
    points, last = found.points, len(found.points) - 1
    ends = found.value(0), found.value(last)
    assert ends[0] is not None and ends[1] is not None
    read = f"{len(found.readings)} of {len(points)} {found.plural} were read"
    if not found.steps and found.metric == "code" and ends[0] == ends[1]:
        return f"No difference: {points[0].label} and {points[-1].label} make the same instructions; {read}."
    if not found.steps:
        return f"No difference: {_value(ends[0], found.metric)} at {points[0].label} and {_value(ends[1], found.metric)} at {points[-1].label}" + (
            "" if ends[0] == ends[1] else ", on one side of the limit") + f"; {read}.{_same_code(found)}"  # fmt: skip
    text = " ".join(_step(found, step) for step in found.steps)
    total = ends[1] - ends[0]
    if len(found.steps) == 1 and found.metric != "code":
        grown = _grown(found, found.steps[0])
        if grown != total:
            text += f" That is {signed(grown, 'g')} of {signed(total, 'g')} {found.metric}."
    if found.further:
        ranges = ", ".join(
            f"{points[s.before].label} to {points[s.after].label} ({signed(_grown(found, s), 'g')})"
            for s in found.further
        )
        text += f" It is not the only step: the value changes also within {ranges}; --all finds each."
    return f"{text} {read[0].upper()}{read[1:]}."


def _step(found: Found, step: Step) -> str:
    points, what = found.points, found.what
    change = (
        ""
        if found.metric == "code"
        else f", {_value(found.value(step.before), found.metric)} to {_value(found.value(step.after), found.metric)}"
    )
    if step.is_exact:
        point = points[step.after]
        title = f" ({point.title})" if point.title else ""
        return f"The value changes at {what} {point.label}{title}{change}."
    names = ", ".join(points[index].label for index in step.candidates)
    unread = any(index not in found.readings for index in step.candidates)
    why = "not all of which were read" if unread else "all but the last of which have no value"
    return f"The value changes at one of the {found.plural} {names}, {why}{change}."


def _grown(found: Found, step: Step) -> float:
    before, after = found.value(step.before), found.value(step.after)
    assert before is not None and after is not None
    return after - before


def _value(value: float | None, metric: str) -> str:
    if metric == "code":
        return "machine code"
    return f"{value:g} {metric}" if value is not None else "no value"


def _same_code(found: Found) -> str:
    """What to look at where a measurement differs though nothing here does."""
    ends = [found.readings[index].launches for index in (0, len(found.points) - 1)]
    hashes = [[item.record.cubin_hash for item in items] for items in ends]
    if hashes[0] and hashes[0] == hashes[1] and all(hashes[0]):
        return (
            " The machine code is the same byte for byte: where measurements differ, the cause is not the kernel but the host (time to launch,"
            " arguments, synchronisation), the driver or the clocks."
        )
    return ""
