"""``gpusim record``; the work."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from gpusim.collect.once import recorded
from gpusim.commands.collecting import listed
from gpusim.errors import UsageError
from gpusim.record.environment import recording_environment
from gpusim.record.library import recorder_library
from gpusim.record.program import run_program
from gpusim.report.tables import format_records


def record(
    command: tuple[str, ...], socket: Path | None, salt: str | None, no_cupti: bool, library_path: bool, form: str
) -> int:
    """What :func:`gpusim.commands.record.record` declares, with its arguments."""
    if library_path:
        click.echo(str(recorder_library()))
        return 0
    if not command:
        raise UsageError("name the program to record: gpusim record -- CMD ...")
    library = recorder_library()
    if socket is not None:
        return run_program(command, recording_environment(os.environ, library, socket.resolve(), salt, not no_cupti))
    with tempfile.TemporaryDirectory(prefix="gpusim-record-") as place:
        path = Path(place) / "collect.sock"
        environment = recording_environment(os.environ, library, path, salt, not no_cupti)
        code, totals, dropped = recorded(Path(place), path, lambda: run_program(command, environment))
    click.echo(format_records(listed(totals), form))
    if dropped:
        click.echo(f"gpusim: {dropped} launches found no room and are not in the list", err=True)
    return code
