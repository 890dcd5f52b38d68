"""``gpusim doctor``: what works on this machine, what does not, and the command that would mend it; the work."""

from __future__ import annotations

import shutil
import textwrap

import click

from gpusim.commands.cold_start import PACKAGE, is_cold
from gpusim.doctor import FAILED, Check, examine, failed
from gpusim.errors import ToolchainError
from gpusim.report.tables import format_records


def doctor(quick: bool, form: str) -> int:
    """What :func:`gpusim.commands.doctor.doctor` declares, with its arguments."""
    checks = [*examine(compile_kernel=not quick), *_compiled()]
    click.echo(_text(checks) if form == "table" else format_records([check.record() for check in checks], form))
    bad = [check for check in checks if check.state == FAILED]
    click.echo(f"{len(bad)} failed" if bad else "the simulator works here", err=True)
    return ToolchainError.exit_code if failed(checks) else 0


def _text(checks: list[Check]) -> str:
    """A line or more a finding, wrapped: they are sentences, which a table would make too wide."""
    name = max(len(check.name) for check in checks)
    columns = max(60, shutil.get_terminal_size((120, 24)).columns)
    lines = []
    for check in checks:
        start = f"{check.state:8} {check.name:{name}}  "
        lines += textwrap.wrap(check.found, columns, initial_indent=start, subsequent_indent=" " * len(start))
        if check.remedy:
            indent = " " * len(start)
            lines += textwrap.wrap(
                f"-> {check.remedy}",
                columns,
                initial_indent=indent,
                subsequent_indent=indent + "   ",
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def _compiled() -> list[Check]:
    """Whether the emulator and the engine have been compiled on this machine."""
    found = []
    for half in ("emulator", "engine"):
        if is_cold(half):
            found.append(
                Check(
                    f"compiled {half}",
                    "note",
                    f"not yet in {PACKAGE / half}",
                    "the first run compiles it: about half a minute",
                )
            )
        else:
            here = any((PACKAGE / half / "__pycache__").glob("*.nbi"))
            text = (
                "compiled before, and kept" if here else "kept elsewhere (NUMBA_CACHE_DIR), if it is compiled already"
            )
            found.append(Check(f"compiled {half}", "ok", text))
    return found
