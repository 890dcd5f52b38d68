"""Types in kernels' names: what C++, Python and the libraries' own letters call them, as one spelling each."""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.production.names.kernel_name import UNKNOWN

_FLOATS = {
    "double": "fp64", "float": "fp32", "float2": "fp32", "float4": "fp32", "half": "fp16", "__half": "fp16", "__half2": "fp16",
    "half2": "fp16", "half_t": "fp16", "Half": "fp16", "float16": "fp16", "bfloat16_t": "bf16", "nv_bfloat16": "bf16",
    "__nv_bfloat16": "bf16", "__nv_bfloat162": "bf16", "BFloat16": "bf16", "bfloat16": "bf16", "tfloat32_t": "tf32",
    "float_e4m3_t": "fp8_e4m3", "__nv_fp8_e4m3": "fp8_e4m3", "Float8_e4m3fn": "fp8_e4m3", "float_e5m2_t": "fp8_e5m2",
    "__nv_fp8_e5m2": "fp8_e5m2", "Float8_e5m2": "fp8_e5m2", "float_e2m1_t": "fp4_e2m1", "__nv_fp4_e2m1": "fp4_e2m1",
    "float8_e4m3": "fp8_e4m3", "float8_e5m2": "fp8_e5m2",
}  # fmt: skip
_INTEGERS = {
    "long": "int64", "int64_t": "int64", "ulong": "uint64", "int": "int32", "int32_t": "int32", "uint": "uint32", "short": "int16",
    "int16_t": "int16", "schar": "int8", "int8_t": "int8", "uchar": "uint8", "uint8_t": "uint8", "bool": "bool",
}  # fmt: skip
#: As the libraries write a type in a name of underscores.
SHORT = {
    "f64": "fp64", "fp64": "fp64", "f32": "fp32", "fp32": "fp32", "f16": "fp16", "fp16": "fp16", "h16": "fp16", "bf16": "bf16",
    "tf32": "tf32", "e4m3": "fp8_e4m3", "e5m2": "fp8_e5m2", "fp8": "fp8", "e2m1": "fp4_e2m1", "i8": "int8", "s8": "int8", "u8": "uint8",
    "int8": "int8", "i32": "int32", "s32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "u16": "uint16", "s16": "int16",
    "f8e4m3": "fp8_e4m3", "f8e5m2": "fp8_e5m2", "int4": "int4", "s4": "int4", "u4": "uint4", "float16": "fp16", "bfloat16": "bf16",
    "int32": "int32", "int64": "int64", "f8": "fp8", "half": "fp16", "float": "fp32", "double": "fp64", "bfloat": "bf16",
}  # fmt: skip
#: Words of C++ that are types, and nothing that a functor is called.
WORDS = frozenset(_FLOATS) | frozenset(_INTEGERS) | {"char", "void"}
_MOST_PAIR = 16
#: BLAS's own letters.
BLAS = {
    "s": "fp32",
    "d": "fp64",
    "h": "fp16",
    "c": "complex64",
    "z": "complex128",
    "gc": "complex64",
    "gz": "complex128",
    "i": "int8",
    "bf": "bf16",
    "tf": "tf32",
}


def type_of(words: Iterable[str], integers: bool = True) -> str:
    """The first floating-point type among a template's words; without one the first integer that is no ``uint``, which
    counts elements nearly always; UNKNOWN without any. ``integers`` false: no integer, since among parameters these are
    sizes."""
    integer, complex_next = "", False
    for word in words:
        if word in _FLOATS:
            if complex_next:
                return {"fp32": "complex64", "fp64": "complex128"}.get(_FLOATS[word], UNKNOWN)
            return _FLOATS[word]
        if word == "complex":
            complex_next = True
        if integers and not integer and word in _INTEGERS and word != "uint":
            integer = _INTEGERS[word]
    return integer or UNKNOWN


def pair_of(word: str) -> tuple[str, str] | None:
    """``tf32f32`` or ``e4m3bf16`` as two types: how xmma writes those of two operands."""
    for at in range(2, len(word) - 1) if len(word) <= _MOST_PAIR else ():
        if word[:at] in SHORT and word[at:] in SHORT:
            return SHORT[word[:at]], SHORT[word[at:]]
    return None
