"""The reference tables that follow from code: commands, exit codes, counters, the trace's records, the keys of a GPU
file.

Mental model: each function reads the declaration that the program itself runs on (click's commands, dtypes,
dataclasses, tuples of names) and makes Markdown of it, so that the reference cannot say something else. A remark behind
a
declared name (``name: int  # remark``) becomes the row's text. ``write_docs.py`` puts the result into the pages.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from pathlib import Path

import click
from docs_tables import table
from griffe_roles import plain

from gpusim import cli, errors
from gpusim.engine import samples
from gpusim.gpus import spec
from gpusim.model import counters, stall_reasons
from gpusim.trace import layout

WIDTH = 100


def commands() -> str:
    """``--help`` of every command and sub-command, as it is printed on a terminal of 100 columns."""
    root = _context(cli.gpusim, "gpusim", None)
    parts = [_help(cli.gpusim, root, 0)]
    for name in cli.gpusim.list_commands(root):
        command = cli.gpusim.get_command(root, name)
        assert command is not None
        parts.append(_command(command, name, root, 1))
    return "\n\n".join(parts)


def _command(command: click.Command, name: str, parent: click.Context, depth: int) -> str:
    context = _context(command, name, parent)
    parts = [_help(command, context, depth)]
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            parts.append(_command(found, sub, context, depth + 1))
    return "\n\n".join(parts)


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    return click.Context(command, info_name=name, parent=parent, **settings)


def _help(command: click.Command, context: click.Context, depth: int) -> str:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"{'#' * (2 + min(depth, 2))} `{context.command_path}`\n\n```text\n{text}\n```"


def exit_codes() -> str:
    """Which error classes end a command with which code."""
    found: dict[int, list[str]] = {}
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.GpusimError):
            found.setdefault(value.exit_code, []).append(f"`{name}`: {plain(inspect.getdoc(value) or '')}")
    return table(["exit code", "Python's error"], [[code, text] for code in sorted(found) for text in found[code]])


def counter_names() -> str:
    """Every counter with what it belongs to, its unit and its meaning."""
    rows = []
    for owner, of, names in (
        ("WORK_TABLE", "an instruction (`--by`) and the launch", "WORK_NAMES"),
        ("COUNTER_TABLE", "the launch", "COUNTER_NAMES"),
    ):
        told = _meanings(counters, owner)
        rows += [[f"`{name}`", of, *told.get(name, ("", ""))] for name in getattr(counters, names)]
    return table(["counter", "counted of", "unit", "what is counted"], rows)


def stall_names() -> str:
    """The stall reasons in the order of the account."""
    remarks = _remarks(stall_reasons, r"^    (?P<name>[A-Z_0-9]+),(?:\s+# (?P<remark>.*))?$")
    told = _meanings(stall_reasons, "STALL_TABLE")
    rows = [
        [f"`{name}`", plain(told[name][1] if name in told else remarks.get(name.upper(), ""))]
        for name in stall_reasons.STALL_NAMES
    ]
    return table(["stall reason", "the warp waits for"], rows)


def _meanings(module: types.ModuleType, owner: str) -> dict[str, tuple[str, str]]:
    """Counter -> (unit, meaning) of the columns that ``owner``, a declared table of ``module``, has."""
    columns = getattr(getattr(module, owner, None), "columns", ())
    return {column.counter: (column.unit, plain(column.meaning)) for column in columns}


def sample_columns() -> str:
    """Columns of the readings over time."""
    return ", ".join(f"`{name}`" for name in samples.TOTALS) + ", then one `stall.*` for each stall reason"


def trace_records() -> str:
    """Fields of each record of a trace, then the numbers of each kind of value."""
    parts = []
    remarks = _remarks(layout, r'^        \("(?P<name>\w+)",.*?\),(?:\s+# (?P<remark>.*))?$')
    for name in ("INSTRUCTION", "RUN", "ACCESS", "WARP", "POLL", "SIGNAL", "BULK"):
        rows = []
        dtype = getattr(layout, name)
        for field in dtype.names:
            kind, offset = dtype.fields[field][:2]
            told = plain(remarks.get(field, "")) if name == "INSTRUCTION" else ""
            rows.append([f"`{field}`", f"`{kind.base.name}`", kind.shape[0] if kind.shape else 1, offset, told])
        head = ["field", "type", "values", "byte", "meaning"]
        parts.append(f"### `{name}`: {dtype.itemsize} bytes\n\n{table(head, rows, frozenset({2, 3}))}")
    for kind in (layout.PipeClass, layout.MemoryKind, layout.Space, layout.Flag, layout.MatrixType):
        parts.append(_numbers(kind))
    return "\n\n".join(parts)


def _numbers(kind: type[IntEnum]) -> str:
    remarks = _remarks(kind, r"^    (?P<name>[A-Z_0-9]+) = \d+(?:\s+# (?P<remark>.*))?$")
    rows = [[value.value, f"`{value.name}`", plain(remarks.get(value.name, ""))] for value in kind]
    about = plain(inspect.getdoc(kind) or "")
    return f"### `{kind.__name__}`\n\n{about}\n\n{table(['number', 'name', 'meaning'], rows, frozenset({0}))}"


def gpu_keys() -> str:
    """Every key of a GPU's TOML file, by section."""
    hints = typing.get_type_hints(spec.GpuSpec)
    parts = [f"## at the top\n\n{_keys(spec.GpuSpec, '')}"]
    for field in fields(spec.GpuSpec):
        kind = spec.PipeSpec if field.name == "pipes" else hints[field.name]
        if is_dataclass(kind) and isinstance(kind, type):
            title = "pipes.NAME" if field.name == "pipes" else field.name
            doc = inspect.getdoc(kind) or ""
            about = plain(" ".join(doc.split())) if not doc.startswith(f"{kind.__name__}(") else ""
            names = "\n\nNAME is one of " + ", ".join(f"`{name}`" for name in spec.PIPE_NAMES) + "."
            more = names if field.name == "pipes" else ""
            parts.append(f"## `[{title}]`\n\n{about}{more}\n\n{_keys(kind, f'{title}.')}".replace("\n\n\n\n", "\n\n"))
    return "\n\n".join(parts)


def _keys(kind: type, prefix: str) -> str:
    hints = typing.get_type_hints(kind)
    remarks = _remarks(kind, r"^    (?P<name>\w+): .*?(?:\s+# (?P<remark>.*))?$")
    rows = []
    for field in fields(kind):
        hint = hints[field.name]
        if field.name == "name" or field.name == "pipes" or is_dataclass(hint):
            continue
        shown = hint.__name__ if isinstance(hint, type) and not isinstance(hint, types.GenericAlias) else str(hint)
        default = "" if field.default is MISSING else f"`{str(field.default).lower()}`"
        rows.append([f"`{prefix}{field.name}`", shown, default, plain(remarks.get(field.name, ""))])
    return table(["key", "type", "default", "meaning"], rows)


def _remarks(owner: types.ModuleType | type, pattern: str) -> dict[str, str]:
    """Name -> the remark behind its declaration in the source of ``owner``."""
    if isinstance(owner, types.ModuleType):
        source = Path(str(owner.__file__)).read_text("utf-8")
    else:
        source = inspect.getsource(owner)
    return {found["name"]: found["remark"] or "" for found in re.finditer(pattern, source, re.MULTILINE)}


REFERENCE: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "exit codes": exit_codes,
    "counters": counter_names,
    "stall reasons": stall_names,
    "sample columns": sample_columns,
    "trace records": trace_records,
    "gpu keys": gpu_keys,
}
