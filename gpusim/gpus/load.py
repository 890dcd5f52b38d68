"""GPU files: a TOML table of sourced values in, a checked :class:`GpuSpec` out.

Mental model: a GPU file is a list of claims. Each claim is a value with the ``kind`` of its evidence
(datasheet, measured, paper, fitted, guess) and its ``source`` in words; a file may ``inherits``
another and restate only what differs. Nothing here knows a GPU: the shape of a file is read from the
dataclasses of :mod:`gpusim.gpus.spec`, so a new field needs no line in the loader.

A file is untrusted input: unknown and missing keys, wrong types, sizes that are not positive and
figures that contradict each other raise :class:`SpecError` with file and key; a name that is neither
built in nor a file raises :class:`UnknownGpuError`.
"""

from __future__ import annotations

import functools
import math
import tomllib
import typing
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path

from gpusim.errors import SpecError, UnknownGpuError
from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.limits import limits_of
from gpusim.gpus.names import called, capability_of, squeeze
from gpusim.gpus.spec import PIPE_NAMES, GpuSpec, PipeSpec
from gpusim.io.nearest import hint
from gpusim.io.shown import shown

KINDS = ("datasheet", "measured", "paper", "fitted", "guess")
_FOLDER = Path(__file__).parent
_MAX_FILE_BYTES = 1 << 20
_MAX_INHERITANCE = 8
PIPE_SECTION = "pipes"
#: Pipes that files from before they were told apart do not state -> the one that they were part of.
FORMERLY = {
    "reduce": "vote", "convert_wide": "convert", "bfloat": "half", "alu_lite": "alu", "half_mma": "half",
    "half_single": "half", "fma_pairs": "imad", "viadd": "alu_lite",
}  # fmt: skip
ALL_KEYS = "`gpusim gpus show h200` lists all keys"


#: Field -> type of a part of the spec; reading them takes a compiler, so once a process.
hints_of = functools.lru_cache(maxsize=None)(typing.get_type_hints)


class Claim(typing.NamedTuple):
    """One stated value, the kind of its evidence, its source in words, and the name of the file that says so."""

    value: object
    kind: str
    source: str
    stated_by: str


def list_gpus() -> list[str]:
    """Names of the built-in GPUs, in alphabetical order."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_gpu(name_or_path: str | Path) -> GpuSpec:
    """The GPU of that built-in name, or of the TOML file at that path, as a checked frozen spec.

    Raises :class:`UnknownGpuError` when there is no such GPU, :class:`SpecError` when its file
    cannot be taken as given.
    """
    path = locate(name_or_path)
    texts = _texts_of(path) if path.parent == _FOLDER else ()
    return _built_in(path, texts) if texts else _read(path)


def _read(path: Path) -> GpuSpec:
    spec = build(path, claims_of(path))
    check_consistency(spec, str(path))
    return spec


@functools.lru_cache(maxsize=128)
def _built_in(path: Path, texts: tuple[bytes, ...]) -> GpuSpec:
    """A built-in GPU, once for as long as its file, and those that it inherits from, hold these texts: whoever compares
    machines, row by row, asks thousands of times."""
    return _read(path)


def _texts_of(path: Path) -> tuple[bytes, ...]:
    """The texts of a built-in file and of those that it inherits from, all built in; none where one cannot be read."""
    texts: list[bytes] = []
    try:
        while len(texts) <= _MAX_INHERITANCE:
            texts.append(path.read_bytes())
            parent = _tables(texts[-1]).get("inherits")
            if parent is None:
                return tuple(texts)
            path = _FOLDER / f"{parent}.toml"
    except (OSError, ValueError):
        pass
    return ()


def built_in_of(name_or_path: str | Path) -> str:
    """The built-in GPU itself, or the nearest one that a user's file inherits from: the name under which
    measurements of its silicon are published. Raises as :func:`load_gpu` does."""
    path = locate(name_or_path)
    for _ in range(_MAX_INHERITANCE + 1):
        if path.parent == _FOLDER:
            return path.stem
        parent = _parse(path).get("inherits")
        if not isinstance(parent, str):
            break
        path = _parent_of(path, parent)
    return path.stem


def own_claims(name_or_path: str | Path) -> dict[str, Claim]:
    """What a user's file, and those of the user's that it inherits from, state otherwise than the built-in GPU below
    them; nothing of a built-in GPU. Raises as :func:`load_gpu` does."""
    path = locate(name_or_path)
    if path.parent == _FOLDER:
        return {}
    base = built_in_of(name_or_path)
    below = claims_of(locate(base)) if base in list_gpus() else {}
    return {key: claim for key, claim in claims_of(path).items() if claim != below.get(key)}


def locate(name_or_path: str | Path) -> Path:
    """The TOML file of a built-in name, or product's name (:mod:`gpusim.gpus.names`), or of a path; UnknownGpuError
    where there is none."""
    text = str(name_or_path)
    known = list_gpus()
    if text in known:
        return _FOLDER / f"{text}.toml"
    path = Path(text)
    try:
        if path.suffix == ".toml" and path.is_file():
            return path
    except (OSError, ValueError):
        pass  # a name no file system accepts is an unknown GPU, not a crash
    if path.suffix == ".toml":
        raise UnknownGpuError(f"there is no GPU file {text}; `gpusim gpus list` names the GPUs that need none")
    titles = _titles(tuple(known))
    meant = called(text, titles)
    if len(meant) == 1:
        return _FOLDER / f"{meant[0]}.toml"
    if meant:
        raise UnknownGpuError(f"{text!r} may be {' or '.join(f'{name} ({titles[name]})' for name in meant)}: say which")
    if capability := capability_of(text):
        alike = [name for name in known if tuple(claims_of(_FOLDER / f"{name}.toml")["capability"].value) == capability]  # pyright: ignore[reportArgumentType]
        if alike:
            raise UnknownGpuError(
                f"{text!r} is the architecture of {', '.join(alike)}: say which, since they differ in time"
            )
    raise UnknownGpuError(
        f"unknown GPU {text!r}; {hint(squeeze(text) or text, known)} (or give the path of a .toml file)"
    )


@functools.lru_cache(maxsize=1)
def _titles(names: tuple[str, ...]) -> dict[str, str]:
    """Each built-in GPU's product name."""
    tables = {name: _parse(_FOLDER / f"{name}.toml") for name in names}
    return {name: str(typing.cast(dict, table["title"])["value"]) for name, table in tables.items()}


def _parse(path: Path) -> dict[str, object]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise SpecError(f"{path}: larger than {_MAX_FILE_BYTES} bytes, not a GPU file")
        return _tables(path.read_bytes())
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    except ValueError as error:  # TOMLDecodeError is one, and so is a number of thousands of digits
        raise SpecError(f"{path}: not valid TOML: {error}") from error


@functools.lru_cache(maxsize=64)
def _tables(text: bytes) -> dict[str, object]:
    """The tables of a file with that text; whoever asks leaves them as they are."""
    return tomllib.loads(text.decode("utf-8-sig"))


def _parent_of(path: Path, parent: str) -> Path:
    """The file that ``path`` inherits from: one beside it, or a built-in GPU."""
    beside = path.parent / parent
    try:
        return beside if parent.endswith(".toml") and beside.is_file() else locate(parent)
    except UnknownGpuError as error:
        raise UnknownGpuError(f"{path}: inherits from what is not there: {error}") from None
    except (OSError, ValueError) as error:  # a name that no file system takes
        raise SpecError(f"{path}: inherits from {parent[:60]!r}, which cannot be read: {error}") from None


def claims_of(path: Path, heirs: tuple[Path, ...] = ()) -> dict[str, Claim]:
    """All claims of a file, inherited ones first, keyed by dotted name."""
    if path in heirs or len(heirs) >= _MAX_INHERITANCE:
        chain = " -> ".join(str(p) for p in (*heirs, path))
        raise SpecError(f"{path}: inherits in a circle or too deep: {chain}")
    table = _parse(path)
    claims: dict[str, Claim] = {}
    if "inherits" in table:
        parent = table["inherits"]
        if not isinstance(parent, str):
            raise SpecError(f"{path}: inherits must be the name of a GPU, not {shown(parent)}")
        claims.update(claims_of(_parent_of(path, parent), (*heirs, path)))
    known = known_keys()
    for key, claim in _flatten(path, {name: entry for name, entry in table.items() if name != "inherits"}):
        if key not in known:
            raise SpecError(f"{path}: unknown key {key}; {hint(key, known, ALL_KEYS)}")
        claims[key] = claim
    return claims


def _flatten(path: Path, table: dict[str, object]) -> typing.Iterator[tuple[str, Claim]]:
    """(dotted key, claim) of each value; a pipe's row shares one kind and source."""
    for name, entry in table.items():
        if not isinstance(entry, dict):
            raise SpecError(f"{path}: {name} must be {{ value, kind, source }}, not {shown(entry)}")
        if "value" in entry:
            yield name, _claim(path, name, entry)
            continue
        for key, inner in entry.items():
            dotted = f"{name}.{key}"
            if not isinstance(inner, dict):
                raise SpecError(f"{path}: {dotted} must be {{ value, kind, source }}, not {shown(inner)}")
            if name != PIPE_SECTION:
                yield dotted, _claim(path, dotted, inner)
                continue
            values = {k: v for k, v in inner.items() if k not in ("kind", "source")}
            if not values:
                raise SpecError(f"{path}: {dotted} states no value")
            for part, value in values.items():
                row = {"value": value, **{k: inner[k] for k in ("kind", "source") if k in inner}}
                yield f"{dotted}.{part}", _claim(path, dotted, row)


def _claim(path: Path, key: str, entry: dict[str, object]) -> Claim:
    extra = set(entry) - {"value", "kind", "source"}
    if extra:
        raise SpecError(f"{path}: {key} has an unknown field {sorted(extra)[0]!r}")
    for part in ("value", "kind", "source"):
        if part not in entry:
            raise SpecError(f"{path}: {key} lacks its {part!r}")
    kind, source = entry["kind"], entry["source"]
    if kind not in KINDS:
        raise SpecError(f"{path}: {key} has kind {shown(kind)}; known kinds: {', '.join(KINDS)}")
    if not isinstance(source, str) or not source.strip():
        raise SpecError(f"{path}: {key} needs a source in words")
    return Claim(entry["value"], typing.cast(str, kind), source, path.stem)


@functools.lru_cache(maxsize=1)
def known_keys() -> dict[str, object]:
    """Every dotted key that a GPU file may hold, with its default (MISSING where required)."""
    keys: dict[str, object] = {}
    hints = hints_of(GpuSpec)
    for item in fields(GpuSpec):
        if item.name == "name":
            continue  # the file's own name
        if item.name == PIPE_SECTION:
            for pipe in PIPE_NAMES:
                keys.update({f"pipes.{pipe}.{f.name}": f.default for f in fields(PipeSpec)})
        elif is_dataclass(hints[item.name]):
            section = hints[item.name]
            keys.update({f"{item.name}.{f.name}": f.default for f in fields(section)})
        else:
            keys[item.name] = item.default
    return keys


def build(path: Path, claims: dict[str, Claim]) -> GpuSpec:
    hints = hints_of(GpuSpec)
    values: dict[str, typing.Any] = {"name": path.stem}
    for item in fields(GpuSpec):
        if item.name == "name":
            continue
        if item.name == PIPE_SECTION:
            values[item.name] = {pipe: _pipe(path, pipe, claims) for pipe in PIPE_NAMES}
        elif is_dataclass(hints[item.name]):
            values[item.name] = _section(path, item.name, hints[item.name], claims)
        else:
            values[item.name] = _field(path, item.name, hints[item.name], claims)
    return GpuSpec(**values)


def _pipe(path: Path, pipe: str, claims: dict[str, Claim]) -> PipeSpec:
    stated = any(key.startswith(f"{PIPE_SECTION}.{pipe}.") for key in claims)
    if not stated and pipe in FORMERLY:
        return replace(_pipe(path, FORMERLY[pipe], claims), own_unit=False)
    return _section(path, f"{PIPE_SECTION}.{pipe}", PipeSpec, claims)


def _section(path: Path, prefix: str, kind: type, claims: dict[str, Claim]) -> typing.Any:
    hints = hints_of(kind)
    return kind(
        **{
            f.name: _field(path, f"{prefix}.{f.name}", hints[f.name], claims)
            for f in fields(kind)
            if f"{prefix}.{f.name}" in claims or f.default is MISSING
        }
    )


def _field(path: Path, key: str, hint: object, claims: dict[str, Claim]) -> object:
    if key not in claims:
        raise SpecError(f"{path}: missing key {key}; state it, or inherit from a GPU that does")
    return checked(f"{path}: {key}", key, hint, claims[key][0])


def checked(where: str, key: str, hint: object, value: object) -> object:
    """The value as the type that the field asks for; SpecError where it cannot be."""
    if hint is bool:
        if not isinstance(value, bool):
            raise SpecError(f"{where} must be true or false, not {shown(value)}")
        return value
    if hint is str:
        if not isinstance(value, str) or not value.strip():
            raise SpecError(f"{where} must be a text, not {shown(value)}")
        return value
    if hint is float:
        return _number(where, key, value)
    if hint is int:
        return _integer(where, key, value)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list) or not value or len(value) > 64:
            raise SpecError(f"{where} must be a list of whole numbers, not {shown(value)}")
        wanted = typing.get_args(hint)
        if wanted[-1] is not Ellipsis and len(value) != len(wanted):
            raise SpecError(f"{where} must hold {len(wanted)} numbers, not {len(value)}")
        return tuple(_integer(where, key, item, zero=True) for item in value)
    raise SpecError(f"{where} has a type that no GPU file can hold: {hint}")


def _integer(where: str, key: str, value: object, zero: bool = False) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(f"{where} must be a whole number, not {shown(value)}")
    _within(where, key, value, zero)
    return value


def _number(where: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not (isinstance(value, int) or isinstance(value, float) and math.isfinite(value)):
        raise SpecError(f"{where} must be a finite number, not {shown(value)}")
    _within(where, key, value)
    return float(value)


def _within(where: str, key: str, value: float, zero: bool = False) -> None:
    limits = limits_of(key)
    if value < limits.least or value > limits.most or (value == 0 and limits.positive and not zero):
        sign = "positive" if limits.positive and not zero else "0 or more"
        least = f", at least {limits.least:.10g}" if limits.least else ""
        raise SpecError(f"{where} must be {sign}{least} and at most {limits.most:.10g}, not {shown(value)}")
