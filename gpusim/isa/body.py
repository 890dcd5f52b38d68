"""Bodies: the compiled functions that execute micro-ops, each declared where it is written.

Mental model: a body is one function and the ways in which it can be run. Its number (column OP of the code matrix)
follows from the order of the declarations, so nobody writes numbers down and a new body touches no other file. Each
body has an entry point of its own, which is compiled when a kernel is first executed that needs it
(:mod:`gpusim.isa.dispatch`); the interpreter calls it by address, found by number. So a further body costs those who
do not use it nothing, neither compile time nor a comparison in a loop. Numbers hold within one process and are part of
no compiled code: what outlives a process must name bodies by name.

Three kinds have an entry point:

- :func:`warp_body` ``(f, p, x, y, z, w, q)``, called once for each warp: ``f`` four int64 flags (what they mean is
  between the body and the lowering that chose it), ``p`` two predicate inputs as uint32 lane masks, ``x, y, z``
  int32[4, >= 32] the words of the sources by lane, ``w`` the result words, ``q`` uint32[2] the predicate outputs
  (``q[0]`` holds a third input when the body begins).
- :func:`lanes_body` ``(f, x, y, z, w, lanes)``, called once for all warps in lockstep, whose lanes lie side by side
  in the same arrays; it touches no predicate. ``w`` may be the destination itself where that is no source.
- :func:`matrix_body` ``(f, x, y, z, w, rules, work)``, called once for each warp: ``rules`` int32[COLUMNS] of
  :mod:`gpusim.isa.architectures`, ``work`` int32[4352] to work in.

The commonest forms are executed by vector bodies (``bodies/wide.py``, ``bodies/masked.py``), which are compiled into
the interpreter and keep one if-chain, because a call would cost more than they do. ``unmasked`` and ``masked`` of a
body say which of those takes its place: where the instruction writes no predicate, or else. Either is a number of a
vector body, or a function of the micro-op's flags and result words that gives one (or a body to run instead, or 0
for none).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gpusim.isa import warp as at
from gpusim.isa.jit import inlined
from gpusim.isa.number_ranges import FIRST_BODY

#: Column VECTOR_BODY of an instruction whose body takes the lanes of all warps in one call. Vector bodies up to here.
LANES_AT_ONCE = 64


class Reach(Enum):
    """What one call of a body executes; VECTOR: it has no entry point."""

    WARP = "once for each warp"
    LANES = "all lanes at once"
    MATRIX = "matrices across a warp"
    VECTOR = "whole warps as values"


Choice = int | Callable[[tuple[int, ...], int], "int | Body"]


@dataclass(frozen=True, eq=False)
class Body:
    """See the module docstring. ``function``: compiled, or None where only vector bodies serve."""

    name: str
    number: int
    reach: Reach
    function: Any
    unmasked: Choice = 0
    masked: Choice = 0

    @property
    def place(self) -> int:
        """Where State.entries holds its entry point."""
        return self.number - FIRST_BODY


#: Every body, its number less FIRST_BODY as index.
BODIES: list[Body] = []


def _declared(name: str, reach: Reach, function: Any, unmasked: Choice, masked: Choice) -> Body:
    if any(body.name == name for body in BODIES):
        raise ValueError(f"two bodies are called {name}")
    if len(BODIES) == at.ENTRY_POINTS:
        raise ValueError(f"no entry point is left for body {name}: raise ENTRY_POINTS in gpusim/isa/warp.py")
    body = Body(name, FIRST_BODY + len(BODIES), reach, function, unmasked, masked)
    BODIES.append(body)
    return body


def vector_body(name: str, unmasked: Choice = 0, masked: Choice = 0) -> Body:
    """Declare a meaning that vector bodies alone execute."""
    return _declared(name, Reach.VECTOR, None, unmasked, masked)


def warp_body(unmasked: Choice = 0, masked: Choice = 0) -> Callable[[Callable], Body]:
    """Declare the decorated function, called once for each warp."""
    return lambda function: _declared(function.__name__, Reach.WARP, inlined(function), unmasked, masked)


def lanes_body(function: Callable) -> Body:
    """Declare the decorated function, called once for all warps in lockstep."""
    return _declared(function.__name__, Reach.LANES, inlined(function), 0, 0)


def matrix_body(function: Callable) -> Body:
    """Declare the decorated function, a product or move of matrices that lie across a warp."""
    return _declared(function.__name__, Reach.MATRIX, inlined(function), 0, 0)


def body_of(number: int) -> Body | None:
    """The body with this number; None for one of the interpreter's own micro-ops (gpusim/isa/system_ops.py)."""
    return BODIES[number - FIRST_BODY] if number >= FIRST_BODY else None


def execution(number: int, flags: tuple[int, ...], words: int, predicates_out: bool) -> tuple[int, int]:
    """Columns OP and VECTOR_BODY of a micro-op by its body's number, its flags, the words of its result, and whether
    it writes predicates. Raises ValueError if the body cannot be run so."""
    body = body_of(number)
    if body is None:
        return number, 0
    choices = (body.masked,) if predicates_out else (body.unmasked, body.masked)
    for choice in choices:
        chosen = choice(flags, words) if callable(choice) else choice
        if isinstance(chosen, Body):
            body = chosen
            break
        if chosen:
            return number, chosen
    if body.reach == Reach.VECTOR:
        raise ValueError(f"body {body.name} has no way to run with flags {flags}")
    return body.number, LANES_AT_ONCE if body.reach == Reach.LANES else 0
