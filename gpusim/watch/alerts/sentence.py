"""An alert in words for whoever owns the kernel, or the owner's manager: what got how much slower, since what, and
where the time goes."""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.regress.attribution import IN_FLIGHT
from gpusim.regress.outcome import Outcome
from gpusim.watch.alerts.attribution import EXECUTED, launches_of, leading_place
from gpusim.watch.alerts.record import BACK, SLOWER, VERIFIED, Alert, AlertSeries
from gpusim.watch.change import COMMIT, DRIFT, UNRECORDED
from gpusim.watch.read_history import MEASURED

#: Stall reason -> what cycles are that it was charged with.
WAITS = {
    "selected": "instructions that issue",
    "not_selected": "waits for an issue slot",
    "wait": "waits for fixed latencies",
    "branch_resolving": "waits for branches",
    "no_instruction": "waits for instruction fetch",
    "long_scoreboard": "waits for global or local memory",
    "short_scoreboard": "waits for shared memory, shuffles or special functions",
    "imc_miss": "waits for the constant cache",
    "barrier": "waits at barriers",
    "membar": "waits at memory fences",
    "math_pipe_throttle": "waits for a busy execution pipe",
    "gmma": "waits for the tensor cores",
    "lg_throttle": "waits for room in the queue of global memory",
    "mio_throttle": "waits for room in the queue of shared memory",
    "drain": "waits for stores before the end",
    "dispatch_stall": "waits for register-file ports",
    "sleeping": "sleeps",
    IN_FLIGHT: "for fewer warps side by side (occupancy or balance)",
}
_METHODS = {
    "toolchain": "the compiler", "gpu_hash": "the description of the GPU", "model": "gpusim's model", "gpusim": "gpusim",
    "driver": "the driver", "host": "the host", "device": "the GPU", "clock": "the clock", "timer": "the way of timing",
}  # fmt: skip
#: So many names are listed before they are counted.
MOST_NAMES = 3
MOST_FIGURES = 3


def headline(alert: Alert, moved: Sequence[AlertSeries]) -> str:
    """What moved by how much since what. ``moved``: the alert's series, the most-moved first."""
    way = "slower" if alert.direction == SLOWER else "faster"
    same_way = [each for each in moved if (each.after > each.before) == (alert.direction == SLOWER)] or list(moved)
    size = shown_percent(alert.size_percent)
    gpus = _listed(list(dict.fromkeys(each.gpu for each in same_way)))
    if len({each.series_id for each in same_way}) == 1:
        (first, *_) = same_way
        name = f"{first.kernel}:{first.shape}" if first.shape else first.kernel
        values = f"{first.before:.6g} to {first.after:.6g} {first.unit}"
        what = f"{name} got {size} % {way} on {gpus} ({values})"
    else:
        kernels = _listed(list(dict.fromkeys(each.kernel for each in same_way)))
        count = len({each.series_id for each in same_way})
        what = f"{kernels} got up to {size} % {way} on {gpus} ({count} series)"
    return f"{what} since {since(alert, measured=bool(same_way) and same_way[0].mode == MEASURED)}"


def since(alert: Alert, *, measured: bool = False) -> str:
    """Since what, as a part of a sentence."""
    commit = f"commit {alert.commit[:10]}"
    said = ": ".join(filter(None, (alert.author, " ".join(alert.subject.split()))))
    if said:
        commit += f" ({said})"
    if alert.cause == COMMIT:
        unseen = len(alert.unseen)
        if unseen and measured:
            commit += f" or {'the other commit' if unseen == 1 else f'one of {unseen} other commits'} near it"
        elif unseen:
            commit += f" or {'the one' if unseen == 1 else f'one of the {unseen}'} before it without a value"
        return commit
    if alert.cause == DRIFT:
        return f"{commit}, little by little"
    if alert.cause == UNRECORDED:
        return f"{commit}, although its machine code is the same"
    changed = _METHODS.get(alert.cause, alert.cause)
    return f"{changed} changed ({alert.who}), first seen at {commit}"


def sentence(alert: Alert, moved: Sequence[AlertSeries], outcome: Outcome | None) -> str:
    """The whole: the headline, and where the cycles of the most-moved series go, as far as its launches are stored."""
    text = headline(alert, moved)
    details = list(filter(None, (_where(outcome), _figures(outcome), _code(outcome)))) if outcome else []
    text += (": " + "; ".join(details) if details else "") + "."
    # Names and subjects come from outside: no escape sequence of theirs reaches a terminal.
    return "".join(letter if letter.isprintable() else "?" for letter in text + _afterwards(alert, moved))


def _afterwards(alert: Alert, moved: Sequence[AlertSeries]) -> str:
    """What became of it."""
    later = max(
        (each for each in moved if each.position > alert.position), key=lambda each: each.position, default=None
    )
    text = ""
    if later is not None and alert.cause == COMMIT and later.commit != alert.commit:
        text = f" It was mended and returned with commit {later.commit[:10]}."
    slower = [each for each in moved if each.after > each.before]
    back = sum(each.state == BACK for each in slower)
    if alert.state == VERIFIED:
        return f"{text} Later runs show the old level again."
    if later is None and back:
        return f"{text} {back} of {len(slower)} slower series are back at the old level."
    return text


def shown_percent(percent: float) -> str:
    """The size of a change for the eye: no sign, few digits."""
    size = abs(percent)
    return f"{size:.0f}" if size >= 99.5 else f"{size:.1f}" if size >= 1 else f"{size:.2g}"


def _where(outcome: Outcome) -> str:
    """Of which kind most of the added or saved cycles are, and at which line."""
    old, new = launches_of(outcome)
    difference = new.cycles - old.cycles
    if outcome.attribution is None or not difference:
        return ""
    sign = 1 if difference > 0 else -1
    term = max(outcome.attribution.stalls, key=lambda term: sign * term.cycles, default=None)
    if term is None or sign * term.cycles <= 0:
        return ""
    share = term.cycles / difference
    which = f"{100 * share:.0f} % of" if share < 0.995 else "all of"
    waits = WAITS.get(term.stall, f"waits of kind {term.stall}")
    text = f"{which} the {'added' if sign > 0 else 'saved'} cycles are {waits}"
    place = leading_place(outcome, term.stall)
    if place is None:
        return text
    most = (
        ""
        if place.share >= 0.9 * share
        else "most of them "
        if place.share >= 0.5 * share
        else "the largest part of them "
    )
    code = place.code
    return f"{text}, {most}at {place.file.rsplit('/', 1)[-1]}:{place.line}" + (f" `{code}`" if code else "")


def _figures(outcome: Outcome) -> str:
    """Which figures of the GPU's description changed, and what they are worth where that is known."""
    if not outcome.figures:
        return ""
    worth = {step.what: f" ({step.cycles:+d} cycles)" for step in outcome.steps}
    named = [f"{each.key} {each.base} to {each.head}{worth.get(each.key, '')}" for each in outcome.figures]
    more = len(named) - MOST_FIGURES
    return "of the GPU's figures " + ", ".join(named[:MOST_FIGURES]) + (f" and {more} more" if more > 0 else "")


def _code(outcome: Outcome) -> str:
    """What changed in the machine code, by counts."""
    old, new = launches_of(outcome)
    parts = []
    if outcome.attribution and outcome.attribution.changed:
        counts = len(old.instructions), len(new.instructions)
        size = f"{counts[1]} instructions" + (f" instead of {counts[0]}" if counts[0] != counts[1] else "")
        parts.append(f"its machine code has {size}, {len(outcome.attribution.changed)} of them other ones")
    executed = old.counters.get(EXECUTED, 0.0), new.counters.get(EXECUTED, 0.0)
    if all(executed) and executed[0] != executed[1]:
        percent = 100 * (executed[1] / executed[0] - 1)
        parts.append(f"executes {shown_percent(percent)} % {'more' if percent > 0 else 'fewer'} of them")
    if old.registers_per_thread != new.registers_per_thread:
        parts.append(f"{new.registers_per_thread} registers a thread instead of {old.registers_per_thread}")
    if old.shared_bytes != new.shared_bytes:
        parts.append(f"{new.shared_bytes} bytes of shared memory instead of {old.shared_bytes}")
    return ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} others"
