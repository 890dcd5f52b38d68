"""Compiled values in parts: tuples by their items and arrays by their data and shape, each a value of its own.

Mental model: Numba hands a tuple or an array about as one aggregate: seven to nine words an array, put together and
taken apart again at every call, assignment and element, by instructions that LLVM then removes: nine tenths of what it
is given. Here an aggregate stays in parts for as long as nobody asks for it as a whole, and a call passes the parts
that are not known otherwise: for a C-contiguous array its address and shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

#: The class of tuple types: of the class itself a type checker does not know that it can be gone through.
TUPLE: Any = types.BaseTuple


class TupleParts:
    """A tuple of ``type``: the values of its items, each in parts or whole."""

    __slots__ = ("items", "type")

    def __init__(self, type: Any, items: list[Any]):
        self.type, self.items = type, items


class ArrayParts:
    """An array of ``type``: a pointer, and a length and (but for C-contiguous arrays) a stride in bytes a dimension."""

    __slots__ = ("data", "shape", "strides", "type")

    def __init__(self, type: Any, data: Any, shape: list[Any], strides: list[Any] | None):
        self.type, self.data, self.shape, self.strides = type, data, shape, strides


class PairParts:
    """What an iterator gives: its next value, and whether there was one."""

    __slots__ = ("items", "type")

    def __init__(self, type: Any, first: Any, second: Any):
        self.type, self.items = type, (first, second)


class RangeParts:
    """``range(start, stop, step)`` of ``type``, where ``step`` is a constant above zero."""

    __slots__ = ("items", "type")

    def __init__(self, type: Any, start: Any, stop: Any, step: Any):
        self.type, self.items = type, (start, stop, step)


class RangeIteration:
    """A loop over a range of constant step: where its next value lies, and how many are left."""

    __slots__ = ("left", "next", "step")

    def __init__(self, next: Any, left: Any, step: Any):
        self.next, self.left, self.step = next, left, step


Parts = TupleParts, ArrayParts, PairParts, RangeParts, RangeIteration


def is_array(type: Any) -> bool:
    """Whether values of ``type`` are kept as :class:`ArrayParts`."""
    return type.__class__ is types.Array or type.__class__ is types.NestedArray


def _is_contiguous(array: Any) -> bool:
    return array.layout == "C"


def whole(context: Any, builder: Any, value: Any) -> Any:
    """``value`` as Numba hands it about. An array belongs to nobody then: there is no reference to count."""
    if isinstance(value, TupleParts):
        return context.make_tuple(builder, value.type, [whole(context, builder, item) for item in value.items])
    if isinstance(value, (PairParts, RangeParts)):
        made = ir.Constant(context.get_value_type(value.type), None)
        for index, item in enumerate(value.items):
            made = builder.insert_value(made, item, index)
        return made
    if not isinstance(value, ArrayParts):
        return value
    model = context.data_model_manager[value.type]
    item_bytes = context.get_abi_sizeof(context.get_data_type(value.type.dtype))
    word = ir.IntType(64)
    count, strides = word(1), list(value.strides or ())
    for length in value.shape:
        count = builder.mul(count, length)
    if value.strides is None:
        step = word(item_bytes)
        for length in reversed(value.shape):
            strides.insert(0, step)
            step = builder.mul(step, length)
    made = ir.Constant(model.get_value_type(), None)
    fields = {"nitems": count, "itemsize": word(item_bytes), "data": value.data}
    fields["shape"] = cgutils.pack_array(builder, value.shape, ty=word)
    fields["strides"] = cgutils.pack_array(builder, strides, ty=word)
    for name, field in fields.items():
        made = builder.insert_value(made, field, model.get_field_position(name))
    return made


def in_parts(context: Any, builder: Any, type: Any, value: Any) -> Any:
    """``value`` of ``type`` in parts, if it is a tuple or an array."""
    if isinstance(value, Parts):
        return value
    if isinstance(type, TUPLE):
        return TupleParts(type, [builder.extract_value(value, index) for index in range(len(type))])
    if not is_array(type):
        return value
    model = context.data_model_manager[type]
    if isinstance(type, types.NestedArray):
        return nested_array(type, builder.extract_value(value, model.get_field_position("data")))
    shape = model.get_field_position("shape")
    strides = None
    if not _is_contiguous(type):
        place = model.get_field_position("strides")
        strides = [builder.extract_value(value, [place, axis]) for axis in range(type.ndim)]
    lengths = [builder.extract_value(value, [shape, axis]) for axis in range(type.ndim)]
    return ArrayParts(type, builder.extract_value(value, model.get_field_position("data")), lengths, strides)


def nested_array(type: Any, data: Any) -> ArrayParts:
    """The array of a record at ``data``: its shape is part of its type."""
    return ArrayParts(type, data, [ir.IntType(64)(length) for length in type.shape], None)


def argument_types(context: Any, type: Any) -> Iterator[Any]:
    """The LLVM types of the arguments that pass a value of ``type``."""
    if isinstance(type, TUPLE):
        for item in type:
            yield from argument_types(context, item)
    elif is_array(type):
        model = context.data_model_manager[type]
        yield model.get_value_type().elements[model.get_field_position("data")]
        if not isinstance(type, types.NestedArray):
            yield from [ir.IntType(64)] * (type.ndim if _is_contiguous(type) else 2 * type.ndim)
    else:
        yield from _flat(context.data_model_manager[type].get_argument_type())


def arguments(context: Any, builder: Any, type: Any, value: Any) -> Iterator[Any]:
    """The arguments that pass ``value`` of ``type``."""
    value = in_parts(context, builder, type, value)
    if isinstance(value, TupleParts):
        for item_type, item in zip(value.type, value.items, strict=True):
            yield from arguments(context, builder, item_type, item)
    elif isinstance(value, ArrayParts):
        yield value.data
        if not isinstance(type, types.NestedArray):
            yield from value.shape
            yield from value.strides or ()
    else:
        yield from _flat(context.data_model_manager[type].as_argument(builder, value))


def from_arguments(context: Any, builder: Any, type: Any, words: Iterator[Any]) -> Any:
    """The value that the next of ``words`` pass, in parts."""
    if isinstance(type, TUPLE):
        return TupleParts(type, [from_arguments(context, builder, item, words) for item in type])
    if isinstance(type, types.NestedArray):
        return nested_array(type, next(words))
    if is_array(type):
        data, shape = next(words), [next(words) for _ in range(type.ndim)]
        return ArrayParts(type, data, shape, None if _is_contiguous(type) else [next(words) for _ in range(type.ndim)])
    model = context.data_model_manager[type]
    return model.from_argument(builder, _nested(model.get_argument_type(), words))


def _flat(nested: Any) -> Iterator[Any]:
    if isinstance(nested, (tuple, list)):
        for each in nested:
            yield from _flat(each)
    else:
        yield nested


def _nested(pattern: Any, words: Iterator[Any]) -> Any:
    """The next of ``words`` in tuples as ``pattern`` has them."""
    if isinstance(pattern, (tuple, list)):
        return tuple(_nested(each, words) for each in pattern)
    return next(words)
