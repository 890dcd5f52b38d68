"""Tells compiled code how wide the rows of a table are, which Numba's array types leave to run time.

Mental model: the place of ``warps[warp, PC]`` is ``warp * width + PC``, and Numba reads the width from the array at
every access: a load and a multiplication each, of dozens that an issue needs. A table's width is known when the code is
compiled. An array of :func:`known_rows` is the same one with that width written into it as a constant, which the
optimiser then carries to wherever the array goes. An array of another width would be read in wrong places; in plain
Python nothing changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic


def _plain_rows(array: np.ndarray, width: int) -> np.ndarray:
    return array


def _plain_planes(array: np.ndarray, rows: int, width: int) -> np.ndarray:
    return array


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The array with its last lengths, and what follows from them, as they are given."""
    array_type = signature.args[0]
    array = context.make_array(array_type)(context, builder, arguments[0])
    lengths = cgutils.unpack_tuple(builder, array.shape, array_type.ndim)
    for i, value in enumerate(arguments[1:], array_type.ndim + 1 - len(arguments)):
        lengths[i] = context.cast(builder, value, signature.args[-1], types.intp)
    stride = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array_type.dtype)))
    strides = []
    for length in reversed(lengths):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    array.shape = cgutils.pack_array(builder, lengths)
    array.strides = cgutils.pack_array(builder, strides)
    return array._getvalue()


@intrinsic
def _known_rows(typing_context, array, width):
    """``array`` of two or more dimensions in C order, ``width`` a constant."""
    return array(array, width), _generate


@intrinsic
def _known_planes(typing_context, array, rows, width):
    """``array`` of three or more dimensions in C order, ``rows`` and ``width`` constants."""
    return array(array, rows, width), _generate


#: ``array``, whose last dimension is ``width``, a constant.
known_rows: Any = _plain_rows if config.DISABLE_JIT else _known_rows
#: ``array``, whose last two dimensions are ``rows`` and ``width``, constants.
known_planes: Any = _plain_planes if config.DISABLE_JIT else _known_planes
