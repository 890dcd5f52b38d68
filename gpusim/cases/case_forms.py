"""What a case function may return, made into one form: launches in order, perhaps a check, perhaps what they do.

Mental model: a case is a list of launches and a check. A function of a user's file may write that as a single launch
``(kernel, grid, block, args)``, with its dynamic shared bytes and its check behind; as a list of such, or ``(list,
check)``; as a generator, which goes on once its launch has run; or as an object with ``launches`` and ``check`` as the
suite's entries have. :func:`as_case` takes them all, so that whoever runs cases knows one form.

Raises NotACaseError for anything else, naming who returned it and what it was.
"""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from gpusim.errors import UsageError, WrongResultError
from gpusim.frontend.registry import is_kernel

#: What is told of a check's error: NumPy's run over pages.
MOST_LETTERS = 300
#: Runs a call of the user's code, known by a label, and says what is wrong with it.
Guard = Callable[[str, Callable[[], Any]], Any]
_FORMS = (
    "(kernel, grid, block, (arguments...)), with dynamic shared bytes or a check behind it, a list or generator of such,"
    " (list, check), or an object with launches and check"
)


class NotACaseError(UsageError):
    """What a case function returned is none of the forms: a slip of who wrote it, whatever the shape."""


def _bare(_label: str, call: Callable[[], Any]) -> Any:
    return call()


@dataclass(frozen=True)
class CaseLaunch:
    """A launch as a case writes it, ``kernel[grid, block, 0, shared_bytes](*args)``: not compiled, and for no GPU
    yet."""

    kernel: Any
    grid: Any
    block: Any
    args: tuple
    shared_bytes: int = 0
    timed: bool = True
    cluster: Any = None


class GeneratedLaunches(Sequence[CaseLaunch]):
    """The launches that a generator yields: it goes on when the next one is asked for, so that what stands behind a
    ``yield`` sees what the launch has written, provided that whoever runs them takes them one by one. ``returned``:
    what the generator gave back at its end. Raises what the generator raises, through ``guard``."""

    def __init__(self, label: str, generator: Iterator[Any], guard: Guard) -> None:
        self._label, self._generator, self._guard = label, generator, guard
        self._made: list[CaseLaunch] = []
        self._ended = False
        self.returned: Any = None

    def _pull(self) -> bool:
        """Whether there was one more."""
        if self._ended:
            return False
        try:
            made = self._guard(self._label, self._next)
        except AssertionError as error:  # between two launches: of what the first has written
            raise WrongResultError(
                f"{self._label}: the result differs from what it asserts: {assertion_text(error)}"
            ) from error
        if self._ended:
            self._refuse_odd_end()
            return False
        launch, checks = _launch(self._label, made)
        if checks:
            raise NotACaseError(f"{self._label}: a generator returns its check at its end: return check")
        self._made.append(launch)
        return True

    def _refuse_odd_end(self) -> None:
        """A verdict that is returned in place of a check counts as one; what is neither would pass for a case without a
        check."""
        said = self.returned
        if said is None or callable(said):
            return
        if type(said).__name__ not in ("bool", "bool_"):
            raise NotACaseError(
                f"{self._label}: a generator returns its check at its end, or whether the result is right, not {said!r:.60}"
            )
        self.returned = lambda: bool(said)
        self.returned.__name__ = self._label

    def _next(self) -> Any:
        try:
            return next(self._generator)
        except StopIteration as end:
            self._ended, self.returned = True, end.value

    def __iter__(self) -> Iterator[CaseLaunch]:
        place = 0
        while place < len(self._made) or self._pull():
            yield self._made[place]
            place += 1

    def __len__(self) -> int:
        while self._pull():
            pass
        return len(self._made)

    def __getitem__(self, place: Any) -> Any:
        while not (isinstance(place, int) and 0 <= place < len(self._made)) and self._pull():
            pass
        return self._made[place]


@dataclass(frozen=True)
class UserCase:
    """``launches`` in order; ``written_check`` as the function gave it; ``work`` counts what the timed launches do
    (``bytes_read``, ``bytes_written``, ``flops``), empty where nobody says so."""

    launches: Sequence[CaseLaunch]
    written_check: Callable[[], None] | None = None
    work: Mapping[str, float] = field(default_factory=dict)
    guard: Guard = _bare

    @property
    def check(self) -> Callable[[], None] | None:
        """Raises AssertionError for a wrong result; None where the case has none. That of a generator is known once all
        its launches have run."""
        if not isinstance(self.launches, GeneratedLaunches) or not callable(self.launches.returned):
            return self.written_check
        return _one_check("the case", [self.launches.returned], self.guard)


def as_case(label: str, made: Any, guard: Guard = _bare) -> UserCase:
    """The case that a function called ``label`` wrote as ``made``, in any of the forms above. ``guard``: runs what is
    the user's code later on, the check or a generator. Raises UsageError."""
    if isinstance(made, Iterator):
        launches = GeneratedLaunches(label, made, guard)
        if next(iter(launches), None) is None:
            raise NotACaseError(f"{label} yielded no launch")
        return UserCase(launches, guard=guard)
    check, work = getattr(made, "check", None), getattr(made, "work", None) or {}
    if check is not None and not callable(check):
        raise NotACaseError(f"{label}: check must be a function, not {type(check).__name__}")
    found = [_launch(label, one) for one in _written(made)]
    checks = [each for _, own in found for each in own] + ([check] if check else [])
    if isinstance(made, tuple) and _is_pair(made):
        checks.append(made[1])
    launches = tuple(launch for launch, _ in found)
    if not launches:
        raise NotACaseError(f"{label} returned no launch")
    if not any(launch.timed for launch in launches):
        raise NotACaseError(f"{label} returned only launches with timed=False: there is nothing to time")
    return UserCase(launches, _one_check(label, checks, guard) if checks else None, dict(work), guard)


def assertion_text(error: AssertionError) -> str:
    """What a check's error says, in a line; a bare assert says no more than where it stands."""
    text = " ".join(str(error).split())[:MOST_LETTERS]
    if text:
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"line {frame.lineno} of {Path(frame.filename).name}: {frame.line}"


def launches_ahead(case: Any) -> list[Any]:
    """The launches of ``case`` that are known without running any: of a generator the first, since what follows waits
    for its result."""
    return list(islice(case.launches, 1 if isinstance(case.launches, GeneratedLaunches) else None))


def _written(made: Any) -> Sequence[Any]:
    """The launches of one that is no generator, as they were written."""
    if hasattr(made, "launches"):
        return list(made.launches)
    if isinstance(made, tuple) and _is_pair(made):
        inner = made[0]
        return [inner] if not isinstance(inner, (list, tuple)) or _is_launch(inner) else inner
    if _is_launch(made) or not isinstance(made, (list, tuple)):
        return [made]
    return made


def _is_pair(made: tuple) -> bool:
    """Whether it is (launches, check)."""
    return len(made) == 2 and callable(made[1]) and not is_kernel(made[0])


def _is_launch(made: Any) -> bool:
    """Whether it is one launch written as a tuple, perhaps with something other than a kernel in front."""
    return isinstance(made, tuple) and len(made) >= 4 and not isinstance(made[0], (list, tuple))


def _launch(label: str, one: Any) -> tuple[CaseLaunch, list[Callable[[], Any]]]:
    """One launch, and the check behind it if there is one."""
    if hasattr(one, "kernel") and hasattr(one, "args"):
        shared, timed = getattr(one, "shared_bytes", 0), getattr(one, "timed", True)
        cluster = getattr(one, "cluster", None)
        return CaseLaunch(one.kernel, one.grid, one.block, tuple(one.args), shared, timed, cluster), []
    if not isinstance(one, tuple) or len(one) not in (4, 5, 6) or not isinstance(one[3], (tuple, list)):
        shown = type(one).__name__ if not isinstance(one, tuple) else f"a tuple of {len(one)}"
        raise NotACaseError(f"{label} must return {_FORMS}; it returned {shown}")
    kernel, grid, block, args, *rest = one
    if not is_kernel(kernel):
        name = getattr(kernel, "__name__", type(kernel).__name__)
        advice = ": it lacks its decorator, such as @cuda.jit" if callable(kernel) else ""
        raise NotACaseError(f"{label} returned a launch of {name}, which is no kernel{advice}")
    checks = [each for each in rest if callable(each)]
    sizes = [each for each in rest if not callable(each) and each is not None]
    try:
        shared = [operator.index(each) for each in sizes]
    except TypeError:
        raise NotACaseError(
            f"{label}: behind a launch's arguments stand its dynamic shared bytes and its check, not {sizes[0]!r}"
        ) from None
    if len(shared) > 1 or len(checks) > 1:
        raise NotACaseError(f"{label} must return {_FORMS}; it returned two {'checks' if len(checks) > 1 else 'sizes'}")
    return CaseLaunch(kernel, grid, block, tuple(args), sum(shared)), checks


def _one_check(label: str, checks: Sequence[Callable[[], Any]], guard: Guard) -> Callable[[], None]:
    """All of ``checks`` as one; a check that gives False, and not only one that raises, says that the result is
    wrong."""

    def check() -> None:
        for each in checks:
            said = guard(f"the check of {label}", each)
            if said is not None and getattr(said, "shape", ()) == () and not said:
                raise AssertionError(f"{getattr(each, '__name__', 'the check')} returned {said}")

    return check
