"""Many plans on several GPUs: all combinations, projected one by one, kept as they come, and which of them nothing
beats.

Mental model: an axis is a name with values; a row of results is a JSON line with its plan. A file of lines makes a
sweep resumable: a plan whose line is there is not projected again, unless another version of gpusim has projected it.
The Pareto front is of those plans that fit, for which none is better in both latency and throughput a GPU.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gpusim.cases.numbers import parse_integer
from gpusim.errors import UsageError
from gpusim.io.package_digest import package_digest
from gpusim.io.whole_line import add_line
from gpusim.project.plan import Plan

#: Names of a plan's parts on the command line -> in the plan; "gpu" is an axis too.
AXES = {
    "batch": "batch", "sequence": "sequence", "output": "output", "tp": "tensor_parallel", "pp": "pipeline_parallel",
    "dp": "data_parallel", "ep": "expert_parallel", "dtype": "dtype", "kv-dtype": "kv_dtype", "experts-dtype": "experts_dtype", "attention-dtype": "attention_dtype", "chunk": "chunk", "micro-batches": "micro_batches", "virtual-stages": "virtual_stages",
    "framework": "framework", "engine": "engine", "recompute": "recompute", "zero": "zero", "reads": "reads", "launch": "launch", "sampling": "sampling",
}  # fmt: skip
#: Whose values are names, in large or small letters.
_NAMED = (
    "dtype", "kv-dtype", "experts-dtype", "attention-dtype", "framework", "engine", "recompute", "reads", "launch", "sampling",
)  # fmt: skip
MOST_PLANS = 1_000_000
_MOST_LINE_BYTES = 1 << 16
#: What a row of the file begins with, and what it says of the code and the figures that made it.
_IDENTITY, _VERSION = "identity", "gpusim"


def axes_of(texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """From ``batch=1,2,4`` and ``tp=1..8`` (powers of two). Raises UsageError for what is no axis."""
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = "output" if name == "output-tokens" else name  # as the option is spelt
        if not equals or not values or (name not in AXES and name != "gpu"):
            raise UsageError(
                f"--sweep {text!r}: write NAME=VALUE,VALUE or NAME=FIRST..LAST with one of {', '.join(['gpu', *AXES])}"
            )
        if name in axes:
            raise UsageError(f"--sweep {name}: given twice")
        kind = str if name == "gpu" else str.lower if name in _NAMED else parse_integer
        axes[name] = tuple(_values(text, values, kind))
    plans = 1
    for values in axes.values():
        plans *= len(values)
    if plans > MOST_PLANS:
        raise UsageError(f"a sweep of {plans:,} plans: at most {MOST_PLANS:,}")
    return axes


def _values(text: str, values: str, kind: Callable[[str], Any]) -> Iterator[Any]:
    for part in values.split(","):
        first, dots, last = part.partition("..")
        try:
            if not dots or kind is not parse_integer:
                yield kind(part.strip())
                continue
            if ".." in last:
                raise ValueError(f"{part} is no number")
            value, end = parse_integer(first), parse_integer(last)
        except ValueError as error:
            raise UsageError(f"--sweep {text!r}: {error}") from None
        if not 1 <= value <= end:
            raise UsageError(
                f"--sweep {text!r}: {part!r} is no range: write FIRST..LAST, the smaller first, both from 1 on"
            )
        while value <= end:
            yield value
            value *= 2


def combinations(plan: Plan, gpu: str, axes: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Plan | str]]:
    """GPU and plan of every combination; instead of a plan that cannot be, why."""
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        name = chosen.pop("gpu", gpu)
        try:
            yield name, replace(plan, **{AXES[axis]: value for axis, value in chosen.items()})
        except UsageError as error:
            yield name, str(error)


def identity(network: str, gpu: str, described: str, plan: Plan) -> str:
    """Of a plan's line in a file: with a digest of the GPU's description and the model's sizes, so that a changed one
    is projected anew."""
    # Rows that were kept before a plan could have groups have no word of them.
    values = {each.name: getattr(plan, each.name) for each in fields(plan) if each.name != "groups" or plan.groups}
    text = json.dumps([network, gpu, described, values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Kept:
    """Rows in a file of JSON lines, each written whole; a last line that a kill cut off is dropped. ``outdated``: how
    many rows were asked for that another version of gpusim has made."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._rows, self._others, self.outdated = path, {}, set(), 0
        if path is not None and path.exists():
            for identity, version, row in _read(path):
                if version == package_digest():
                    self._rows[identity] = row
                else:
                    self._others.add(identity)

    def get(self, identity: str) -> dict[str, Any] | None:
        """The row of a plan that is done; None where it is not, or other code or figures than today's made it."""
        found = self._rows.get(identity)
        self.outdated += found is None and identity in self._others
        return found

    def add(self, identity: str, row: dict[str, Any]) -> None:
        """Keep it, on disk too."""
        self._rows[identity] = row
        if self._path is None:
            return
        line = json.dumps({_IDENTITY: identity, _VERSION: package_digest(), "row": row}, allow_nan=False)
        add_line(self._path, line)


def _read(path: Path) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    try:
        with path.open("rb+") as stream:
            whole = 0
            for number, line in enumerate(iter(lambda: stream.readline(_MOST_LINE_BYTES), b""), 1):
                if not line.endswith(b"\n") and len(line) < _MOST_LINE_BYTES and _is_begun(line):
                    stream.truncate(whole)  # what is appended begins a line
                    return
                whole += len(line)
                try:
                    found = json.loads(line)
                    yield found[_IDENTITY], found.get(_VERSION), dict(found["row"])
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise UsageError(
                        f"{path}, line {number}: no row of a sweep; give another file, or remove it"
                    ) from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def _is_begun(line: bytes) -> bool:
    """Whether ``line`` may be what a kill has left of a row, and not the end of some other file."""
    begin = json.dumps({_IDENTITY: ""})[:-2].encode()
    return line.startswith(begin) or begin.startswith(line)


def pareto(
    rows: Sequence[dict[str, Any]], least: str, most: str, usable: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Of ``rows`` that are ``usable`` those for which no other has both a smaller ``least`` and a larger ``most``, by
    ``least``."""
    best: list[dict[str, Any]] = []
    for row in sorted((row for row in rows if usable(row)), key=lambda row: (row[least], -row[most])):
        if not best or row[most] > best[-1][most]:
            best.append(row)
    return best
