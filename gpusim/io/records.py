"""Values from outside as values of a declared type, or one line that says which of them is wrong.

Mental model: what a file may hold is declared once, as a dataclass, a TypedDict or a list of them; msgspec holds the
file against that, strictly (a text is no number, true is no 1), and this page turns its complaint into the caller's
error with the place, what was expected there and what was found: ``run.json: units[0].busy_percent should be a number,
not 'much'``.

JSON is read as RFC 8259 has it: no NaN, no Infinity, no number that a float cannot hold. Half of a surrogate pair, as
Python writes a file name's byte that is no UTF-8, becomes U+FFFD: the rest of the file is good, and such text can be
printed nowhere.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from types import UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from gpusim.errors import GpusimError
from gpusim.io.shown import shown

T = TypeVar("T")
#: A float that is a number.
Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
#: One from 0 on; one above 0.
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
PositiveFinite = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
#: A whole number from 0 on; from 1 on.
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
#: What an axis of a shape or an option may be.
Scalar = str | int | float | bool

_EXPECTED = re.compile(r"Expected (?P<what>.+?)(?:, got .+)?")
_WORDS = {"float": "a number", "int": "a whole number", "str": "a text", "object": "an object", "array": "a list",
          "bool": "true or false", "null": "null"}  # fmt: skip
#: An escape in JSON: a whole surrogate pair, half of one, or any other.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.S
)


def read_json(data: bytes | str) -> Any:
    """The value of a JSON text. Raises ValueError, also for one that is nested too deeply."""
    try:
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            encoded = data.encode() if isinstance(data, str) else data
            whole = whole_escapes(encoded)
            if whole == encoded:
                raise
            return msgspec.json.decode(whole)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def whole_escapes(data: bytes) -> bytes:
    """A JSON text of the same length, in which each half of a surrogate pair is U+FFFD."""
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], data)


def parse_record(kind: type[T], data: bytes | str, where: str, error: type[GpusimError]) -> T:
    """The value of type ``kind`` in a JSON text. Raises ``error``, beginning with ``where``, for anything else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError):
        pass  # not of this type, or no JSON: told below
    try:
        value = read_json(data)
    except ValueError as problem:
        raise error(f"{where}: not JSON: {problem}") from None
    return as_record(kind, value, where, error)


def as_record(kind: type[T], value: Any, where: str, error: type[GpusimError], *, closed: bool = False) -> T:
    """``value``, made of dicts, lists and scalars, as one of type ``kind``; ``closed``: a dataclass may have no other
    keys. Raises ``error``, beginning with ``where``, for anything else."""
    try:
        made = msgspec.convert(value, kind)
    except RecursionError:
        raise error(f"{where}: nested too deeply") from None
    except msgspec.ValidationError as problem:
        raise error(f"{where}: {_told(str(problem), kind, value)}") from None
    if closed:
        unknown = [key for key in value if key not in {field.name for field in dataclasses.fields(cast(Any, kind))}]
        if unknown:
            raise error(f"{where}: unknown key{'s' * (len(unknown) > 1)} {', '.join(map(_brief, unknown[:8]))}")
    return made


def nested_beyond(value: Any, levels: int) -> bool:
    """Whether parsed JSON is nested more deeply than ``levels``: Python writes and shows no value that is nearly as
    deep as its stack, though msgspec just reads it."""
    row = [value]
    for _ in range(levels):
        row = [inner for each in row if isinstance(each, dict | list) and each
               for inner in (each.values() if isinstance(each, dict) else each)]  # fmt: skip
    return any(isinstance(each, dict | list) for each in row)


def _told(message: str, kind: Any, value: Any) -> str:
    """msgspec's ``message`` in plain words, with the place and the value that it is about."""
    message, _, path = message.partition(" - at ")
    of_key = path.startswith("`key`")
    place, found = _find(kind, value, re.sub(r"^`key` in ", "", path).strip("`").removeprefix("$"))
    name = place.lstrip(".") or "it"
    if of_key:
        return f"{name} has a key that is no text"
    if expected := _EXPECTED.fullmatch(message):
        return f"{name} should be {_in_words(expected['what'])}, not {_brief(found)}"
    if missing := re.fullmatch(r"Object missing required field `(.+)`", message):
        return f"{name} lacks {missing[1]!r}"
    return f"{name} cannot be {_brief(found)}: {message[:1].lower()}{message[1:]}"


def _in_words(expected: str) -> str:
    if str(sys.float_info.max) in expected:
        return "a finite number"
    names = re.sub(r"`(.+?)`", lambda found: " or ".join(_WORDS.get(n, n) for n in found[1].split(" | ")), expected)
    for sign, words in ((">=", "of at least"), ("<=", "of at most"), (">", "above"), ("<", "below")):
        names = names.replace(f" {sign} ", f" {words} ")
    return names


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return shown(value)


def _find(kind: Any, value: Any, path: str) -> tuple[str, Any]:
    """The place that msgspec calls ``path`` and the value there; of a dict's values it says ``[...]``, here they have
    names."""
    place = ""
    while path:
        if path.startswith("[...]"):
            inner = _inside(kind, None)
            key = next(key for key, each in value.items() if not _fits(inner, each))
            step, path = f".{key}" if str(key).isprintable() else f"[{_brief(key)}]", path[5:]
        elif index := re.match(r"\[(\d+)\]", path):
            key, step, path = int(index[1]), index[0], path[index.end() :]
        else:
            # A name may hold what separates names: the longest key that stands here is meant.
            standing = [key for key in value if re.match(re.escape(f".{key}") + r"(?=[.\[]|$)", path)]
            key = max(standing, key=len)
            step, path = f".{key}", path[1 + len(key) :]
        kind, value = _inside(kind, key), value[key]
        place += step
    return place, value


def _fits(kind: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _inside(kind: Any, key: Any) -> Any:
    """The type of what stands under ``key`` in a value of type ``kind``."""
    while get_origin(kind) in (Annotated, NotRequired, Required):
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
        return _inside(kind, key)
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return get_type_hints(kind, include_extras=True)[key]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):  # as an object, or as a list of its fields
        return get_type_hints(kind, include_extras=True)[key if isinstance(key, str) else kind.__struct_fields__[key]]
    arguments = get_args(kind)
    if get_origin(kind) is tuple and arguments[-1] is not Ellipsis:
        return arguments[key]
    return arguments[1] if isinstance(get_origin(kind), type) and hasattr(get_origin(kind), "keys") else arguments[0]
