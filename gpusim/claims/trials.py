"""A case called as no honest timing loop would mind: again, with other contents in its inputs, and afresh.

Mental model: the first call is the case as it stands. Called again at once it must do the same work. Its inputs changed
and its outputs filled with a pattern, the same device must leave what a fresh device leaves, else it remembers; and
something of that must differ from the first call's results, else the results do not depend on the inputs. Each is a
fact of the emulator's memory accesses and of what the arrays hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusim.cases.case_forms import GeneratedLaunches
from gpusim.claims.arrays import POISON, NamedArray, named_arrays, other_content
from gpusim.claims.device import Call, ClaimDevice, view_of
from gpusim.claims.finding import ClaimFinding, Weight
from gpusim.claims.touched import WRITTEN
from gpusim.errors import ExecutionError, UsageError, WrongResultError
from gpusim.gpus.spec import GpuSpec

#: A call may take so many times the instructions of the first before it counts as one that never ends.
_MOST_WORK = 20
_LEAST_LIMIT = 10_000_000
#: A call made again that does less than this share of the first one's work does less.
LEAST_SHARE = 0.95


@dataclass(frozen=True)
class Changed:
    """A fresh call with other contents: ``given`` the arrays' contents before it, ``call`` what came of it;
    ``perturbed``: the arrays whose contents are others than in the first call; ``case`` as it was made for it."""

    given: tuple[np.ndarray, ...] = field(repr=False)
    call: Call
    perturbed: tuple[NamedArray, ...]
    case: Any = field(repr=False)
    before_args: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True)
class Trials:
    """``first``: the case as it stands, after ``before``; ``as_given`` that call in the form of a changed one;
    ``changed`` None where inputs could not be changed; ``findings`` of both; ``is_checked``: a check of the case's own
    has looked at the first call's results."""

    arrays: tuple[NamedArray, ...]
    before: tuple[np.ndarray, ...] = field(repr=False)
    first: Call
    as_given: Changed
    changed: Changed | None
    findings: tuple[ClaimFinding, ...]
    is_checked: bool = False

    @property
    def outputs(self) -> tuple[NamedArray, ...]:
        """The arrays that timed launches write."""
        return tuple(array for array in self.arrays if self.first.touched.written(array.index).any())


def try_case(
    make: Callable[[], Any], spec: GpuSpec, limit: int, check: Callable[[Any], bool], *, seed: int = 0
) -> Trials:
    """Call the case that ``make`` makes, as above. ``check``: holds a case that has just been called against its own
    check, raises WrongResultError, and says whether it has one. Raises what making and capturing the case as it stands
    raise."""
    case = make()
    device = ClaimDevice(spec, limit)
    device.place(case)
    before, arguments = device.contents(), _copied_arguments(case)
    first = device.call(case)
    arrays = tuple(named_arrays(case, device.arrays))
    if len(before) != len(arrays):  # a generator's later launches brought more
        before = (*before, *(np.zeros(allocation.size, np.uint8) for allocation in device.arrays[len(before) :]))
    device.limit = max(_LEAST_LIMIT, _MOST_WORK * first.warp_instructions)
    findings, is_checked = _of_first(first, arrays), False
    try:
        is_checked = check(case)
    except WrongResultError as error:
        findings.append(ClaimFinding("wrong", Weight.WRONG, str(error)))
    as_given = Changed(before, first, (), case, arguments)
    generated = isinstance(case.launches, GeneratedLaunches)
    if generated:
        findings.append(
            ClaimFinding(
                "not-repeated",
                Weight.NOTE,
                "its launches are made one by one by Python and were not repeated on one device",
            )
        )
    else:
        findings += _of_repetition(device, case, first)
    findings += _of_second_making(make, spec, device.limit, arrays, before, first)
    changed, trouble = _changed(make, spec, device.limit, arrays, before, first, seed)
    if changed is None:
        findings.append(ClaimFinding("inputs-not-changed", Weight.NOTE, f"its inputs could not be changed: {trouble}"))
        return Trials(arrays, before, first, as_given, None, tuple(findings), is_checked)
    findings += _of_dependence(arrays, first, changed)
    if not generated:
        findings += _of_memory(device, case, arrays, changed)
    return Trials(arrays, before, first, as_given, changed, tuple(findings), is_checked)


def _of_first(first: Call, arrays: Sequence[NamedArray]) -> list[ClaimFinding]:
    """What the first call's accesses say."""
    found = []
    written = [array for array in arrays if first.touched.written(array.index).any()]
    if not written:
        by_others = [array.name for array in arrays if first.touched_untimed.written(array.index).any()]
        told = f"; {', '.join(by_others)} is written by launches that are not timed" if by_others else ""
        found.append(ClaimFinding("writes-nothing", Weight.INVALID, f"the timed launches write no array{told}"))
    else:
        found += [_prepared(array, first) for array in arrays if _is_prepared(array, first)]
    for array in arrays:
        if array.argument is None:
            continue
        uses = first.touched.uses[array.index] | first.touched_untimed.uses[array.index]
        if not uses.any():
            found.append(
                ClaimFinding("not-touched", Weight.SUSPECT, f"{array.name} is neither read nor written by any launch")
            )
    for array in written:
        share = float(first.touched.written(array.index).mean())
        if share < 1.0:
            count = round((1.0 - share) * array.view(first.contents[array.index]).size)
            found.append(
                ClaimFinding(
                    "partly-written",
                    Weight.NOTE,
                    f"{count} elements of {array.name} ({100 * (1 - share):.3g} %) are not written",
                )
            )
    return found


def _is_prepared(array: NamedArray, first: Call) -> bool:
    """Whether only launches that are not timed write an array, and none that is timed looks at it."""
    index = array.index
    return bool(first.touched_untimed.written(index).any() and not first.touched.uses[index].any())


def _prepared(array: NamedArray, _: Call) -> ClaimFinding:
    return ClaimFinding(
        "not-timed", Weight.SUSPECT,
        f"{array.name} is written by launches that are not timed, and no timed launch reads or writes it: if it is a result, its time is left out",
    )  # fmt: skip


def _of_repetition(device: ClaimDevice, case: Any, first: Call) -> list[ClaimFinding]:
    """Called again at once, with whatever the first call left."""
    try:
        again = device.call(case)
    except ExecutionError as error:
        told = f"called again at once it fails, so that a loop has to restore its arrays: {error}"
        return [ClaimFinding("call-fails", Weight.NOTE, told)]
    if again.warp_instructions >= LEAST_SHARE * first.warp_instructions:
        return []
    share = 100.0 * again.warp_instructions / max(1, first.warp_instructions)
    return [
        ClaimFinding(
            "less-work", Weight.SUSPECT,
            f"called again at once it executes {again.warp_instructions:,} warp instructions, {share:.3g} % of the first call's {first.warp_instructions:,}:"
            " a timing loop that does not restore its arrays measures less than the work",
        )
    ]  # fmt: skip


def _of_second_making(
    make: Callable[[], Any],
    spec: GpuSpec,
    limit: int,
    arrays: Sequence[NamedArray],
    before: Sequence[np.ndarray],
    first: Call,
) -> list[ClaimFinding]:
    """The same case made once more, on a fresh device and with the same contents: whatever it does less was kept by the
    host's code."""
    case = make()
    device = ClaimDevice(spec, limit)
    device.place(case)
    if [allocation.size for allocation in device.arrays] != [content.size for content in before[: len(device.arrays)]]:
        return [ClaimFinding("other-arrays", Weight.NOTE, "made a second time it has other arrays")]
    write(device, before)
    try:
        call = device.call(case)
    except ExecutionError as error:
        return [
            ClaimFinding("remembers", Weight.INVALID, f"made a second time with the same contents it fails: {error}")
        ]
    less = [
        array.name
        for array, uses in zip(arrays, call.touched.uses, strict=False)
        if (first.touched.written(array.index) & (uses & WRITTEN == 0)).any()
    ]
    if not less:
        return []
    told = f"made a second time with the same contents it leaves out writes to {' and '.join(less)} that it made the first time"
    return [ClaimFinding("remembers", Weight.INVALID, told)]


def _changed(
    make: Callable[[], Any], spec: GpuSpec, limit: int, arrays: Sequence[NamedArray], before: Sequence[np.ndarray], first: Call,
    seed: int,
) -> tuple[Changed | None, str]:  # fmt: skip
    """A fresh call with other contents in what is read, or why there is none. Whole numbers may be addresses in
    disguise: where they make the call fail, only fractions are changed."""
    trouble = "it reads no array whose contents can be others"
    for kinds in ("fciub", "fc"):
        given, perturbed = [], []
        for array, content in zip(arrays, before, strict=True):
            uses = first.touched.uses[array.index] | first.touched_untimed.uses[array.index]
            is_read, is_written = bool((uses & 1).any()), bool((uses & 2).any())
            other = None
            # An argument that nothing touched may be an input that is left out: a reference tells.
            is_input = is_read or not (is_written or array.argument is None)
            if is_input and array.dtype is not None and array.dtype.kind in kinds:
                other = other_content(array, content, seed)
            if other is not None:
                perturbed.append(array)
            elif is_written and not is_read:
                other = np.full_like(content, POISON)
            given.append(content if other is None else other)
        if not perturbed:
            continue
        case = make()
        device = ClaimDevice(spec, limit)
        device.place(case)
        if [allocation.size for allocation in device.arrays] != [content.size for content in given]:
            return None, "made again it has other arrays"
        write(device, given)
        arguments = _copied_arguments(case)
        try:
            call = device.call(case)
        except (ExecutionError, UsageError) as error:
            trouble = f"with other contents it fails: {error}"
            continue
        return Changed(tuple(given), call, tuple(perturbed), case, arguments), ""
    return None, trouble


def _of_dependence(arrays: Sequence[NamedArray], first: Call, changed: Changed) -> list[ClaimFinding]:
    """Whether results differ where inputs do."""
    outputs = [array for array in arrays if changed.call.touched.written(array.index).any()]
    same = []
    for array in outputs:
        written = changed.call.touched.written(array.index)
        if np.array_equal(changed.call.contents[array.index][written], first.contents[array.index][written]):
            same.append(array.name)
    inputs = ", ".join(array.name for array in changed.perturbed)
    dropped = [
        array.name
        for array in arrays
        if first.touched.written(array.index).any() and not changed.call.touched.written(array.index).any()
    ]
    if dropped:
        told = f"with other contents in {inputs} it does not write {' and '.join(dropped)}"
        return [ClaimFinding("writes-depend-on-data", Weight.NOTE, told)]
    if not outputs or not same:
        return []
    if len(same) == len(outputs):
        return [
            ClaimFinding(
                "constant",
                Weight.INVALID,
                f"{' and '.join(same)} do not change when {inputs} do: what is written does not depend on what is read",
            )
        ]
    return [ClaimFinding("independent-output", Weight.NOTE, f"{' and '.join(same)} do not change when {inputs} do")]


def _of_memory(device: ClaimDevice, case: Any, arrays: Sequence[NamedArray], changed: Changed) -> list[ClaimFinding]:
    """The device that was called before, given the same contents as the fresh one."""
    write(device, changed.given)
    try:
        call = device.call(case)
    except ExecutionError as error:
        return [
            ClaimFinding(
                "call-fails",
                Weight.INVALID,
                f"called again with other inputs it fails, which a fresh device does not: {error}",
            )
        ]
    found = []
    for array in arrays:
        index = array.index
        wanted = changed.call.touched.written(index)
        if not wanted.any():
            continue
        left = int((wanted & ~call.touched.written(index)).sum())
        differ = int((array.view(call.contents[index]) != array.view(changed.call.contents[index])).sum())
        if array.dtype is not None and array.dtype.kind in "fc":  # NaN equals NaN here
            differ = int((_words(array, call.contents[index]) != _words(array, changed.call.contents[index])).sum())
        if left or differ:
            size = array.dtype.itemsize if array.dtype is not None else 1
            unwritten = (
                f"{left // size} elements of {array.name} are not written by a call that follows another; "
                if left
                else ""
            )
            found.append(
                ClaimFinding(
                    "remembers", Weight.INVALID,
                    f"{unwritten}with other inputs, {differ} elements of {array.name} differ from what a fresh device leaves: results of an earlier call are used",
                )
            )  # fmt: skip
    return found


def _words(array: NamedArray, content: np.ndarray) -> np.ndarray:
    """The elements as rows of bytes packed into one value each."""
    size = array.dtype.itemsize if array.dtype is not None else 1
    return content.view(f"V{size}")


def write(device: ClaimDevice, contents: Sequence[np.ndarray]) -> None:
    """Put ``contents`` into the device's arrays."""
    for allocation, content in zip(device.arrays, contents, strict=False):
        view_of(allocation)[:] = content


def _copied_arguments(case: Any) -> tuple[Any, ...]:
    """The arguments of the first timed launch, arrays as copies."""
    launches = case.launches[:1] if isinstance(case.launches, GeneratedLaunches) else case.launches
    timed = [launch for launch in launches if launch.timed] or list(launches)
    return tuple(each.copy() if isinstance(each, np.ndarray) else each for each in timed[0].args)
