"""The types of a Triton kernel's arguments as text, for code that is looked at and never launched.

Mental model: as ``triton.tools.compile`` takes it: types in order, ``*fp32`` a pointer, ``:16`` behind one that is
known to be divisible by 16, ``:1`` an integer that is 1; a plain number or name is the value of a ``tl.constexpr``;
``NAME=value`` gives one by keyword, also Triton's options. Each type becomes an argument of its kind, and Triton
compiles the launch.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.frontend.triton.kernels import TritonKernel
from gpusim.frontend.triton.tensors import HostTensor

_NAMED = re.compile(r"^([A-Za-z_]\w*)\s*=\s*(.+)$", re.DOTALL)
_TYPE = re.compile(r"^(\*?)\s*(?:k)?([a-z]+\d*\w*)(?::(\d+))?$")
_POINTED = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i1": "bool", "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2", **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)}, **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}  # fmt: skip
#: A value of each type that Triton types so, and that is divisible by nothing.
_NUMBERS = {"i32": 3, "i64": (1 << 40) + 3, "u64": (1 << 63) + 3, "fp32": 0.5, "i1": True, "u1": True}
_EXAMPLE = '--signature "*fp32:16, *fp32:16, i32, BLOCK=1024"'


def stand_ins(function: Any, signature: str | None, kernel: TritonKernel) -> tuple[tuple, dict[str, Any]]:
    """Arguments by position and by keyword that make Triton compile the ``triton.jit`` function for ``signature``.
    Raises UsageError."""
    name = function.__name__
    if signature is None:
        if _is_complete(function, kernel):
            return (), {}
        raise UsageError(f"{name} is a Triton kernel: say the types of its arguments, such as {_EXAMPLE}")
    args: list[Any] = []
    given: dict[str, Any] = {}
    for part in filter(None, (text.strip() for text in signature.split(","))):
        named = _NAMED.match(part)
        if named is not None:
            given[named[1]] = _stand_in(named[2].strip(), part, name)
        elif given:
            raise UsageError(f"signature of {name}: {part!r} stands behind {next(iter(given))}=: give types first")
        else:
            args.append(_stand_in(part, part, name))
    return tuple(args), given


def _is_complete(function: Any, kernel: TritonKernel) -> bool:
    parameters = function.signature.parameters.values()
    return all(each.name in kernel.given or each.default is not each.empty for each in parameters)


def _stand_in(text: str, part: str, kernel: str) -> Any:
    found = _TYPE.match(text)
    if found is not None:
        pointer, kind, divisor = found.groups()
        if pointer and kind in _POINTED and divisor in (None, "16"):
            return HostTensor(_POINTED[kind], 0 if divisor else 4, np.empty(0, np.uint8))
        if not pointer and kind in _NUMBERS:
            number = _NUMBERS[kind]
            if divisor is None:
                return number
            if divisor == "1" and kind == "i32":
                return 1
            if divisor == "16" and isinstance(number, int) and not isinstance(number, bool):
                return number - 3 + 16
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(
            f"signature of {kernel}: {part!r} is neither a type ({', '.join(_NUMBERS)}; pointers such as *fp32, with :16 where"
            " they are aligned) nor a value"
        ) from None
