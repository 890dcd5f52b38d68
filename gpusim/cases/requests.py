"""What a command line writes for a kernel and its shape, taken apart: ``name:axis=value,axis=value``, and sweeps over
several values of an axis, ``saxpy:n=1024,4096,block_threads=128,256``.

Mental model: what stands behind a comma and has no ``=`` is another value of the axis before it; a bracketed value
keeps its commas. A sweep is the product of its axes, the last one fastest, and each point of it is a request of its
own.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from gpusim.cases.native_names import split_native
from gpusim.errors import UsageError

#: A comma that stands in no bracket.
_COMMA = re.compile(r",(?![^(\[{]*[)\]}])")
#: The colon before axes.
_AGAIN = re.compile(r":(?=[A-Za-z_]\w*=(?!=))")
#: More points than anybody means.
MOST_POINTS = 10_000


@dataclass(frozen=True)
class SweepPoint:
    """``text``: the request of this point alone; ``values``: those of the swept axes, as they were written."""

    text: str
    name: str
    values: dict[str, str] = field(default_factory=dict)


def split_request(text: str) -> tuple[str, dict[str, list[str]]]:
    """The name and, axis by axis, the values as written; the name may be ``file.py:function`` or
    ``file.cu:kernel``. Raises UsageError."""
    name, colon, rest = text.partition(":")
    native = split_native(text)
    file, found, after = text.partition(".py:")
    if native is not None:
        path, entry, rest = native
        name, colon = f"{path}:{entry}", rest
    elif found:
        function, colon, rest = after.partition(":")
        name = f"{file}{found}{function}"
    if native is not None:
        # What stands behind a launch, as in FILE:KERNEL:n=1..9,grid=n:n=4, is said of it again.
        shape: dict[str, list[str]] = {}
        for part in _AGAIN.split(rest) if rest else ():
            shape |= _axes(text, part)
        return name.strip(), shape
    return name.strip(), _axes(text, rest) if colon else {}


def _axes(text: str, rest: str) -> dict[str, list[str]]:
    """The axes that ``rest`` of the request ``text`` says."""
    shape: dict[str, list[str]] = {}
    axis = ""
    for item in _COMMA.split(rest):
        before, equals, value = (part.strip() for part in item.partition("="))
        if not equals and axis and before:
            shape[axis].append(before)
            continue
        if not equals or not before or not value:
            raise UsageError(f"{text!r}: expected KERNEL:axis=value,axis=value, got {item!r}")
        if before in shape:
            raise UsageError(
                f"{text!r}: axis {before} is given twice; several values are {before}={shape[before][0]},{value}"
            )
        axis = before
        shape[axis] = [value]
    return shape


def parse_request(text: str) -> tuple[str, dict[str, str]]:
    """As :func:`split_request`, for who takes one value an axis."""
    name, shape = split_request(text)
    for axis, values in shape.items():
        if len(values) > 1:
            raise UsageError(
                f"{text!r}: axis {axis} has {len(values)} values; a sweep is for gpusim simulate, here give one value"
            )
    return name, {axis: values[0] for axis, values in shape.items()}


def sweep_points(text: str) -> list[SweepPoint]:
    """The points of a request, in order; one for a request that sweeps over nothing. Raises UsageError."""
    name, shape = split_request(text)
    swept = [axis for axis, values in shape.items() if len(values) > 1]
    points = []
    for values in itertools.islice(itertools.product(*shape.values()), MOST_POINTS + 1):
        chosen = dict(zip(shape, values, strict=True))
        request = f"{name}:{','.join(f'{axis}={value}' for axis, value in chosen.items())}" if chosen else name
        points.append(SweepPoint(request, name, {axis: chosen[axis] for axis in swept}))
    if len(points) > MOST_POINTS:
        raise UsageError(f"{text[:80]!r}: a sweep of more than {MOST_POINTS} points")
    return points
