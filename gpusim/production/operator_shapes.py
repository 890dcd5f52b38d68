"""What a framework's operator around a launch says of the sizes of its work.

Mental model: traces of PyTorch write the dimensions of an operator's inputs as nested lists, ``[[128, 768], [768,
3072]]``; an operator orders its inputs in one way, so that its name and these give the product's m, n and k, a row's
length, or the number of elements. What is not told, or told otherwise, is None: no size is guessed.

Source: the signatures in PyTorch's ``aten/src/ATen/native/native_functions.yaml`` (2.x).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

MOST_TEXT = 4096
_Dims = list[int]
_decoder = msgspec.json.Decoder(list[list[Any]])
#: Of a dimension and of the elements of an operand: more is a damaged trace.
MOST_ELEMENTS = 1 << 48


def input_dims(shapes: str) -> list[_Dims]:
    """The dimensions of each input; an empty list for a scalar, for a list of tensors and for what is not told. [] for
    another text."""
    if not shapes or len(shapes) > MOST_TEXT:
        return []
    try:
        found = _decoder.decode(shapes.replace("'", '"'))
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [_sound(each) for each in found]


def _sound(dims: Sequence[object]) -> _Dims:
    whole = [each for each in dims if isinstance(each, int) and 0 < each < MOST_ELEMENTS]
    return whole if len(whole) == len(dims) and math.prod(whole) < MOST_ELEMENTS else []


def product_sizes(operator: str, shapes: str) -> tuple[int, int, int, int] | None:
    """Batch, m, n and k of a matrix product."""
    dims, name = input_dims(shapes), _plain(operator)
    if name in ("addmm", "baddbmm", "addmv") and len(dims) > 1:
        dims = dims[1:]
    if len(dims) < 2 or not dims[0] or not dims[1]:
        return None
    left, right = dims[0], dims[1]
    if name in ("mm", "addmm") and len(left) == len(right) == 2 and left[1] == right[0]:
        return 1, left[0], right[1], left[1]
    if name in ("bmm", "baddbmm") and len(left) == len(right) == 3 and left[2] == right[1] and left[0] == right[0]:
        return left[0], left[1], right[2], left[2]
    if name == "linear" and len(right) == 2 and left[-1] == right[1]:
        return 1, math.prod(left[:-1]), right[0], left[-1]
    if name == "matmul" and len(right) == 2 and left[-1] == right[0]:
        return 1, math.prod(left[:-1]), right[1], left[-1]
    if name in ("mv", "addmv") and len(left) == 2 and len(right) == 1 and left[1] == right[0]:
        return 1, left[0], 1, left[1]
    return None


def rows_and_columns(shapes: str) -> tuple[int, int] | None:
    """Of the largest input: its last dimension, and the product of those before."""
    dims = max((each for each in input_dims(shapes) if each), key=math.prod, default=None)
    return (math.prod(dims[:-1]), dims[-1]) if dims else None


def attention_sizes(operator: str, shapes: str) -> tuple[int, int, int, int] | None:
    """Batch, heads, tokens and head size of attention whose query is (batch, heads, tokens, head size), as PyTorch's
    own is."""
    dims = input_dims(shapes)
    ours = "scaled_dot_product" in operator
    return (dims[0][0], dims[0][1], dims[0][2], dims[0][3]) if ours and dims and len(dims[0]) == 4 else None


def _plain(operator: str) -> str:
    return operator.rpartition("::")[2].rstrip("_")
