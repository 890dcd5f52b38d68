"""Write docs/reference/state.md: every state table and message, from its declaration.

    python tools/write_state_reference.py [--check]

``--check`` writes nothing, and ends with 1 if the page is not what would be written.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gpusim
from gpusim.state_tables import UNITS, Record, Table

PACKAGE = Path(gpusim.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "state.md"
HEAD = """# State tables

For those who change or debug the emulator, the model or the engine: every array in which compiled functions keep their state, and every message
that parts of the machine send one another. How the parts work together: [the machine as a graph](../explanation/machine.md). This page is
written by `python tools/write_state_reference.py` from their declarations; `gpusim.state_tables` says how a table is declared.

A table is an array of `int64` unless another type is named: one row for each thing, one column for each fact about it. Compiled functions name
columns by the constants below, as in `warps[warp, PC]`.

## Units

| unit | meaning |
|---|---|
"""


def modules() -> Iterator[ModuleType]:
    """Every module of gpusim that declares state, by name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "from gpusim.state_tables import" in path.read_text(encoding="utf-8"):
            yield importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))


def declared(module: ModuleType) -> Iterator[Table | Record]:
    """What ``module`` declares, in order."""
    for value in vars(module).values():
        if isinstance(value, (Table, Record)) and value.module == module.__name__:
            yield value


def row(*cells: str) -> str:
    """A row of a Markdown table; a bar in a cell is no border."""
    # [slot][warp] would be a link of Markdown's
    return (
        "| " + " | ".join(cell.replace("``", "`").replace("|", "\\|").replace("][", "]\\[") for cell in cells) + " |\n"
    )


def table_text(table: Table) -> str:
    """A table's section."""
    kind = "" if table.dtype == "int64" else f" Of `{table.dtype}`."
    shape = f"One row: {table.rows}." if table.rows else "A vector."
    if table.columns_first:
        shape = f"Rows and columns change places. One column: {table.rows}."
    counted = any(table.counters())
    text = f"### `{table.array}`\n\n{shape} {table.meaning}{kind}\n\n"
    head = ("column", "name", "unit", "meaning", "counter")[: 5 if counted else 4]
    text += row(*head) + "|" + "---|" * len(head) + "\n"
    for column, name in table.names().items():
        last = int(column) + column.span - 1
        number = (
            f"{int(column)}" if column.span == 1 else f"{int(column)} to {last}" if column.span else f"{int(column)} on"
        )
        cells = (number, f"`{name}`", column.unit, column.meaning, f"`{column.counter}`" if column.counter else "")
        text += row(*cells[: len(head)])
    return text + "\n"


def record_text(record: Record) -> str:
    """A record's section."""
    text = f"### `{record.name}`\n\n{record.meaning} {record.dtype.itemsize} bytes.\n\n"
    text += row("field", "type", "unit", "meaning") + "|---|---|---|---|\n"
    for field in record.fields:
        text += row(f"`{field.name}`", f"`{field.type}`", field.unit, field.meaning)
    return text + "\n"


def page() -> str:
    """The whole page; raises ValueError for a column that has no name, or two."""
    text = HEAD + "".join(row(unit, meaning) for unit, meaning in UNITS.items()) + "\n"
    for module in modules():
        declarations = list(declared(module))
        if not declarations:
            continue
        summary = (module.__doc__ or "").strip().splitlines()[0]
        text += f"## `{module.__name__}`\n\n{summary}\n\n"
        text += "".join(table_text(one) if isinstance(one, Table) else record_text(one) for one in declarations)
    return text.rstrip("\n") + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    options = parser.parse_args(arguments)
    text = page()
    if options.check:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE} is not up to date: run python tools/write_state_reference.py", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
