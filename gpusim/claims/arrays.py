"""The arrays of a case as its launches take them: what they are called, of which type, and other contents for them.

Mental model: a kernel's result is a function of what it reads. Other contents of the same kind (numbers of the same
range; whole numbers drawn from those that are there, since they may be indices) must change the result of one that
computes it, and change nothing for one that remembers it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.launch.memory import Allocation, extent

#: What an output is filled with before it is written: no number that a kernel computes, and in bytes none of zeros or
#: ones.
POISON = 0xA5


@dataclass(frozen=True)
class NamedArray:
    """``index`` among the device's arrays; ``name`` as the kernel's source has it, or its place among the arguments;
    ``dtype`` None where it is not known."""

    index: int
    name: str
    dtype: np.dtype | None
    argument: int | None = None

    def view(self, content: np.ndarray) -> np.ndarray:
        """``content``, its bytes, as numbers of its type; bytes where that is not known."""
        if self.dtype is None or content.size % self.dtype.itemsize:
            return content
        return content.view(self.dtype)


def named_arrays(case: Any, allocations: Sequence[Allocation]) -> list[NamedArray]:
    """The device's arrays by the names that the launches' kernels have for them."""
    names: dict[int, tuple[str, np.dtype | None, int]] = {}
    for launch in case.launches:
        parameters = _parameters(launch.kernel)
        for place, argument in enumerate(launch.args):
            index, dtype = _found(argument, allocations)
            if index is not None:
                name = parameters[place] if place < len(parameters) else f"argument {place}"
                names.setdefault(index, (name, dtype, place))
    return [
        NamedArray(index, *names[index]) if index in names else NamedArray(index, f"array {index}", None)
        for index in range(len(allocations))
    ]


def other_content(array: NamedArray, content: np.ndarray, seed: int) -> np.ndarray | None:
    """Other bytes of the same kind for an array; None where there are none (all whole numbers alike, an unknown
    type)."""
    random = np.random.default_rng([seed, array.index])
    values = array.view(content)
    kind = values.dtype.kind if array.dtype is not None else ""
    if kind in "fc":
        real = np.real(values)
        known = real[np.isfinite(real)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        if low == high:
            low, high = (0.5 * low, 1.5 * low) if low else (0.0, 1.0)
        drawn = random.uniform(min(low, high), max(low, high), values.shape)
        if kind == "c":
            drawn = drawn + 1j * random.uniform(min(low, high), max(low, high), values.shape)
        return drawn.astype(values.dtype).view(np.uint8)
    if kind in "iub" and values.size:
        found = random.choice(values, values.shape)
        return None if np.array_equal(found, values) else np.ascontiguousarray(found).view(np.uint8)
    return None


def _found(argument: Any, allocations: Sequence[Allocation]) -> tuple[int | None, np.dtype | None]:
    """The allocation in which an argument's array lies, and its type."""
    if not isinstance(argument, np.ndarray):
        interface = getattr(argument, "__array_interface__", None)
        if not isinstance(interface, dict):
            return None, None
        argument = np.asarray(argument)
    if not argument.size:
        return None, None
    low, _ = extent(argument)
    for index, allocation in enumerate(allocations):
        if allocation.host <= low < allocation.host + max(1, allocation.size):
            return index, argument.dtype if argument.dtype.kind in "fciub" else None
    return None, None


def _parameters(kernel: Any) -> list[str]:
    function = getattr(kernel, "py_func", None) or getattr(kernel, "fn", None)
    try:
        return list(inspect.signature(function).parameters) if function is not None else []
    except (TypeError, ValueError):
        return []
