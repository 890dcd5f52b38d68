"""What the changed machine is worth in an outcome, and the outcome in one sentence.

Mental model: where BASE and HEAD ran on different machines and HEAD's launches are at hand, they are simulated on the
machines in between (:mod:`gpusim.regress.gpu_changes`). If the program changed as well, the new program on the old
machine comes first, so that code and machine are told apart; all steps add up to the difference.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.errors import GpusimError
from gpusim.io.percent import signed_percent
from gpusim.regress.attribution import IN_FLIGHT, InstructionTerm, LineTerm, StallTerm
from gpusim.regress.gpu_changes import Step, cycles_on, steps
from gpusim.regress.outcome import Outcome

PROGRAM = "launch and machine code"


def with_steps(outcome: Outcome) -> Outcome:
    """The outcome with its ``steps``, where they can be found; costs a simulation for each."""
    if not outcome.figures or outcome.items is None:
        return outcome
    old, new = outcome.items
    same_work = bool(old.record.trace_hash) and old.record.trace_hash == new.record.trace_hash
    difference = new.record.cycles - old.record.cycles
    if same_work and len(outcome.figures) == 1 and old.model == new.model:
        (change,) = outcome.figures
        return replace(outcome, steps=(Step(change.key, (change,), difference),))
    if old.simulation_input is None or new.simulation_input is None:
        return outcome
    machine = old.simulation_input.spec
    first: tuple[Step, ...] = ()
    before = old.record.cycles
    if not same_work:
        try:
            between = cycles_on(replace(new.simulation_input, spec=machine))
        except GpusimError:
            return outcome  # the old machine cannot run the new program
        first = (Step(PROGRAM, (), between - before),)
        before = between
    found = steps(machine, new.simulation_input, before, outcome.figures)
    return replace(outcome, steps=first + found) if found else outcome


def sentence(outcome: Outcome) -> str:
    """The outcome for a reader in a hurry: how much, since what changed, and where most of it is."""
    if outcome.items is None or outcome.attribution is None:
        return f"{outcome.name}: {outcome.verdict}: {outcome.reason}."
    old, new = (item.record for item in outcome.items)
    difference = new.cycles - old.cycles
    text = f"{outcome.name} on {outcome.gpu}: {outcome.verdict}, {old.cycles} to {new.cycles} cycles"
    if outcome.unit == "us":
        text += (
            f", {old.time_us:.5g} to {new.time_us:.5g} us at {old.clock_hz / 1e6:.0f} and {new.clock_hz / 1e6:.0f} MHz"
        )
    text += f" ({signed_percent(outcome.change_percent, '.2f')})"
    if outcome.causes:
        text += f"; changed: {', '.join(outcome.causes)}"
    if not difference:
        return text + "."
    parts = [_step(step) for step in _leading(outcome.steps, difference)]
    parts += [_stall(term) for term in _leading(outcome.attribution.stalls, difference)]
    parts += [_line(term) for term in _leading(outcome.attribution.lines, difference)]
    parts += [_instruction(term) for term in _leading(outcome.attribution.instructions, difference)]
    return text + (f"; of {difference:+d} cycles: {', '.join(parts)}" if parts else "") + "."


def _leading(terms: tuple, difference: int) -> tuple:
    """The one term that has most of the difference, in its direction."""
    sign = 1 if difference > 0 else -1
    best = max(terms, key=lambda term: sign * term.cycles, default=None)
    return (best,) if best is not None and sign * best.cycles > 0 else ()


def _step(step: Step) -> str:
    if len(step.changes) == 1:
        change = step.changes[0]
        return f"{step.cycles:+d} from {step.what} ({change.base} to {change.head})"
    return f"{step.cycles:+d} from {step.what}"


def _stall(term: StallTerm) -> str:
    return f"{term.cycles:+d} in {term.stall}" + ("" if term.stall == IN_FLIGHT else f" ({term.unit})")


def _line(term: LineTerm) -> str:
    if not term.line:
        return f"{term.cycles:+d} in code without a line"
    code = term.text
    return f"{term.cycles:+d} at {term.file.rsplit('/', 1)[-1]}:{term.line}" + (f" `{code}`" if code else "")


def _instruction(term: InstructionTerm) -> str:
    instruction = term.pair.head or term.pair.base
    assert instruction is not None
    return f"{term.cycles:+d} at {instruction.address:04x} {instruction.text} ({term.pair.change})"
