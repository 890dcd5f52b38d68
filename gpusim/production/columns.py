"""What rows of production can be grouped by: what the launch says, and what its kernel's name says.

Mental model: a column is a name and a function from a launch and its parsed name to a text; what the source does not
say is UNKNOWN, so that its share of time shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpusim.production.launches import LaunchTotal
from gpusim.production.names.kernel_name import FIELDS, UNKNOWN, KernelName
from gpusim.production.names.parse import parse_names

Column = Callable[["NamedTotal"], str]
#: What annotations of PyTorch and NCCL call a collective, as :mod:`gpusim.production.names.communication` does.
_COLLECTIVES = {
    "allreduce": "all_reduce", "allreducecoalesced": "all_reduce", "allgather": "all_gather", "allgatherbase": "all_gather",
    "allgatherintotensorcoalesced": "all_gather", "reducescatter": "reduce_scatter", "reducescatterbase": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter", "alltoall": "all_to_all", "alltoallv": "all_to_all", "alltoallbase": "all_to_all",
    "broadcast": "broadcast", "reduce": "reduce", "send": "send_recv", "recv": "send_recv", "barrier": "barrier",
}  # fmt: skip


@dataclass(frozen=True)
class NamedTotal:
    """A row and what its kernel's name says."""

    total: LaunchTotal
    name: KernelName


def named(totals: Iterable[LaunchTotal]) -> list[NamedTotal]:
    """Each row with its parsed name."""
    every = list(totals)
    names = parse_names(total.what.kernel for total in every)
    return [NamedTotal(total, _of_kind(total, names)) for total in every]


def _of_kind(total: LaunchTotal, names: Mapping[str, KernelName]) -> KernelName:
    """What the source says the row is goes before the name: a graph is none of the kernels in it."""
    name = names[total.what.kernel]
    if total.what.kind == "memcpy" and not name.is_known:
        return KernelName("copy", library="driver", function=name.function)
    if total.what.kind == "memset" and not name.is_known:
        return KernelName("fill", "memset", "driver", function=name.function)
    if total.what.kind in ("graph", "other"):
        return KernelName(function=total.what.kind)
    collective = total.what.collective
    if collective is not None and (not name.is_known or name.operation == UNKNOWN):
        return replace(
            name, family="communication", operation=_COLLECTIVES.get(_letters(collective.name), collective.name)
        )
    return name


def _letters(name: str) -> str:
    return "".join(letter for letter in name[:64].lower() if letter.isalpha())


def _size(extent: Sequence[int] | None) -> str:
    return "x".join(map(str, extent)) if extent else UNKNOWN


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


COLUMNS: dict[str, Column] = {
    "kernel": lambda row: row.total.what.kernel or UNKNOWN,
    **{field: (lambda row, field=field: getattr(row.name, field)) for field in FIELDS},
    "kind": lambda row: row.total.what.kind,
    "grid": lambda row: _size(row.total.what.grid),
    "block": lambda row: _size(row.total.what.block),
    "shared_bytes": lambda row: _number(row.total.what.shared_bytes),
    "registers": lambda row: _number(row.total.what.registers),
    "phase": lambda row: row.total.what.phase or UNKNOWN,
    "operator": lambda row: row.total.what.operator or UNKNOWN,
    "shapes": lambda row: row.total.what.shapes or UNKNOWN,
    "gpu": lambda row: row.total.what.gpu or UNKNOWN,
    "device": lambda row: row.total.what.device or UNKNOWN,
    "rank": lambda row: str(row.total.what.rank) if row.total.what.rank >= 0 else UNKNOWN,
    "stream": lambda row: row.total.what.stream_kind or UNKNOWN,
}
#: What ``--by shape`` stands for.
GROUPS = {"shape": ("function", "grid", "block", "shapes")}


def columns_of(by: Sequence[str]) -> tuple[str, ...]:
    """The columns that ``by`` names, groups of columns resolved, each once."""
    return tuple(dict.fromkeys(column for each in by for column in GROUPS.get(each, (each,))))


def key_of(row: NamedTotal, columns: Sequence[str]) -> tuple[str, ...]:
    """The texts of a row in ``columns``."""
    return tuple(COLUMNS[column](row) for column in columns)
