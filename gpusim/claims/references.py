"""Results beside those of a reference: a function of NumPy, or another kernel.

Mental model: the reference gets the very contents that the changed call got, which nobody could know before. A result
may differ by rounding; how far is the tolerance, stated or the result's type's own, relative to each element and to the
array's usual size. A result that is off by what a shorter format would make it is called so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpusim.claims.arrays import NamedArray
from gpusim.claims.device import ClaimDevice
from gpusim.claims.finding import ClaimFinding, Weight
from gpusim.claims.trials import Changed, write
from gpusim.errors import UsageError
from gpusim.gpus.spec import GpuSpec

#: Relative error up to which results of a type are right: some thousand roundings' worth for float, which sums over a
#: few thousand terms keep.
TOLERANCES = {"float64": 1e-12, "float32": 1e-4, "float16": 5e-3, "complex64": 1e-4, "complex128": 1e-12}
#: Half a unit in the last place of formats, relative: IEEE 754 and NVIDIA's TF32 and BF16 (10, 10 and 7 fraction bits).
_FORMATS = (("TF32 or FP16", 2.0**-11), ("BF16", 2.0**-8))
#: A larger error is no matter of precision.
_MOST_ROUNDING = 0.05
#: What stands in machine code that computes in a shorter format than FP32.
_SHORT = ("HFMA2", "HADD2", "HMUL2")


def compare_with_function(
    function: Callable[..., Any], changed: Changed, arrays: Sequence[NamedArray], tolerance: float | None
) -> list[ClaimFinding]:
    """Results of the changed call beside what ``function`` makes of the same arguments: it returns the outputs in the
    order of the arguments, or writes them in place. Raises UsageError for a function that does neither."""
    arguments = [each.copy() if isinstance(each, np.ndarray) else each for each in changed.before_args]
    returned = function(*arguments)
    by_argument = {array.argument: array for array in arrays if array.argument is not None}
    written = [
        array for array in arrays if changed.call.touched.written(array.index).any() and array.argument is not None
    ]
    if returned is None:
        expected = [
            (by_argument[place], argument)
            for place, argument in enumerate(arguments)
            if isinstance(argument, np.ndarray) and place in by_argument
        ]
    else:
        results = [np.asarray(each) for each in (returned if isinstance(returned, (tuple, list)) else (returned,))]
        sized = [array for array in written if any(_count(array, changed) == result.size for result in results)]
        if len(sized) != len(results):
            raise UsageError(
                f"the reference returns {len(results)} arrays, and the kernel writes {len(written)} ({', '.join(a.name for a in written) or 'none'}):"
                " return one for each in the order of the arguments, or write them in place and return nothing"
            )
        expected = list(zip(sized, results, strict=True))
    found = []
    for array, wanted in expected:
        got = array.view(changed.call.contents[array.index])
        if wanted.size != got.size:
            raise UsageError(f"the reference gives {wanted.size} elements for {array.name}, which has {got.size}")
        unchanged = returned is None and np.array_equal(
            wanted.ravel(), array.view(changed.given[array.index]), equal_nan=_may_be_nan(wanted)
        )
        if unchanged and array not in written:
            continue
        found += _compared(array, got, wanted.ravel(), changed, tolerance, is_input=unchanged)
    return found


def compare_with_case(make: Callable[[], Any], spec: GpuSpec, limit: int, changed: Changed, arrays: Sequence[NamedArray],
                      tolerance: float | None) -> list[ClaimFinding]:  # fmt: skip
    """Results of the changed call beside those of another case with as many arrays of the same sizes, given the same
    contents."""
    case = make()
    device = ClaimDevice(spec, limit)
    device.place(case)
    sizes = [allocation.size for allocation in device.arrays]
    if sizes != [content.size for content in changed.given]:
        raise UsageError(
            f"the other case has arrays of {sizes} bytes, this one of {[c.size for c in changed.given]}: they do not take the same data"
        )
    write(device, changed.given)
    call = device.call(case)
    found = []
    for array in arrays:
        if changed.call.touched.written(array.index).any() or call.touched.written(array.index).any():
            got, wanted = (array.view(each.contents[array.index]) for each in (changed.call, call))
            found += _compared(array, got, wanted, changed, tolerance)
    return found


def short_instructions(changed: Changed) -> list[str]:
    """Opcodes of the timed launches that compute or accumulate in FP16."""
    texts = {text.split()[0] for trace in changed.call.timed for text in trace.program.texts if text}
    return sorted(
        text
        for text in texts
        if text.startswith(_SHORT) or (text.startswith(("HMMA", "HGMMA")) and text.rstrip(";").endswith(".F16"))
    )


def _compared(
    array: NamedArray,
    got: np.ndarray,
    wanted: np.ndarray,
    changed: Changed,
    tolerance: float | None,
    *,
    is_input: bool = False,
) -> list[ClaimFinding]:
    allowed = tolerance if tolerance is not None else TOLERANCES.get(got.dtype.name, 0.0)
    error = relative_errors(got, wanted)
    bad = ~(error <= allowed)
    if not bad.any():
        return []
    worst, count = float(np.nanmax(np.where(np.isfinite(error), error, np.inf))), int(bad.sum())
    if is_input:
        return [
            ClaimFinding(
                "modifies-input",
                Weight.INVALID,
                f"{count} elements of {array.name} are changed, which the reference leaves as they are",
            )
        ]
    written = changed.call.touched.written(array.index)
    itemsize = max(1, changed.given[array.index].size // max(1, got.size))
    unwritten = int((bad & ~written.reshape(-1, itemsize).any(axis=1)).sum()) if written.size else 0
    if unwritten:
        return [
            ClaimFinding(
                "not-written",
                Weight.WRONG,
                f"{unwritten} of {got.size} elements of {array.name} that the reference computes are not written",
            )
        ]
    figures = f"{count} of {got.size} elements of {array.name} are off by more than {allowed:g} (the worst by {worst:.3g}, relative)"
    if worst <= _MOST_ROUNDING and got.dtype.kind in "fc":
        typical = float(np.median(error))
        name = min(_FORMATS, key=lambda each: abs(np.log(max(typical, 1e-30) / each[1])))[0]
        short = short_instructions(changed)
        told = f"; its machine code has {', '.join(short[:3])}" if short else ""
        return [
            ClaimFinding(
                "precision",
                Weight.WRONG,
                f"{figures}: the typical error, {typical:.2g}, is that of arithmetic in {name}{told}",
            )
        ]
    return [ClaimFinding("wrong", Weight.WRONG, figures)]


def relative_errors(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How far each element is off, relative to itself and to the root mean square of all, whichever is larger; 0 where
    both are NaN or the same."""
    wide = np.complex128 if "c" in (got.dtype.kind, wanted.dtype.kind) else np.float64
    a, b = got.astype(wide), wanted.astype(wide)
    finite = np.isfinite(b)
    scale = float(np.sqrt(np.mean(np.abs(b[finite]) ** 2))) if finite.any() else 0.0
    with np.errstate(all="ignore"):
        error = np.abs(a - b) / np.maximum(np.abs(b), scale)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def _may_be_nan(values: np.ndarray) -> bool:
    return values.dtype.kind in "fc"


def _count(array: NamedArray, changed: Changed) -> int:
    return array.view(changed.given[array.index]).size
