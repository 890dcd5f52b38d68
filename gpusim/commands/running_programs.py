"""``gpusim run`` of a program that is not Python; the work."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from gpusim.commands.run_libraries import libraries
from gpusim.commands.run_request import RunRequest
from gpusim.driver.device import make_device
from gpusim.driver.programs import (
    CHOICE,
    FOLDERS,
    PATHS,
    PRELOAD,
    Account,
    environment_for,
    read_account,
    run_executable,
)
from gpusim.driver.recording import INDEX, open_folder
from gpusim.driver.session import VARIABLE, Options, Session
from gpusim.io.whole_file import replacing
from gpusim.report.launches import launches_text
from gpusim.report.tables import format_cards, format_records

#: Exit codes: a check has found something; a SIGINT.
FINDINGS, INTERRUPTED = 1, 130
_PACKAGE = Path(__file__).parents[1]
_PLACES = (*PATHS, PRELOAD, *FOLDERS)


def run(**options: Any) -> int:
    """What :func:`gpusim.commands.run.run` declares, with its arguments."""
    asked = RunRequest(**options)
    if asked.library_path:
        click.echo(libraries())
        return 0
    make_device(asked.gpu, count=asked.devices or 1)  # a mistake is told before the program starts
    if not all(any((_PACKAGE / half / "__pycache__").glob("*.nbi")) for half in ("emulator", "engine")):
        compiling = importlib.import_module("gpusim.commands.cold_start").start_compiling_engine()
        if compiling is not None and asked.simulates:
            compiling.wait()
    return _run_and_show(asked)


def _run_and_show(asked: RunRequest) -> int:
    """Run it to its end and list its launches; the exit code."""
    folder, options = libraries(), asked.options()
    if options.record:
        options.record = str(open_folder(Path(options.record), asked.force).resolve())
    with tempfile.TemporaryDirectory(prefix="gpusim-run-", ignore_cleanup_errors=True) as place:
        session = Session(Path(place))
        session.write(options)
        environment = environment_for(folder, session, os.environ, keeps_choice=asked.devices is not None)
        code = run_executable(asked.program, asked.arguments, environment)
        account = read_account(session)
    if options.record:
        _write_index(Path(options.record), options.gpu, account)
    if code == INTERRUPTED:
        click.echo("error: interrupted", err=True)
    show(account, options, asked.output, asked.form, asked.all_launches)
    if asked.misplaced:
        click.echo(asked.misplaced, err=True)
    if options.leak_check:
        show_leaks(account.leaks)
    show_reasons(account)
    return code or (FINDINGS if account.findings or account.leaks else 0)


class Children:
    """The processes that a Python program starts, while it runs: they find the device too. :meth:`close` afterwards."""

    def __init__(self, options: Options, keeps_choice: bool = False):
        self._place = tempfile.mkdtemp(prefix="gpusim-run-")
        self._session = Session(Path(self._place))
        self._session.write(options)
        self._session.enter()  # the program itself
        self._before = dict(os.environ)
        found = environment_for(libraries(), self._session, os.environ, keeps_choice)
        os.environ.update(found)
        if CHOICE not in found:
            os.environ.pop(CHOICE, None)

    def account(self) -> Account:
        """What they have told so far."""
        return read_account(self._session)

    def close(self) -> None:
        """Forget them."""
        for name in {*os.environ} - {*self._before}:
            if name in (VARIABLE, *_PLACES):
                del os.environ[name]
        os.environ.update({name: self._before[name] for name in (*_PLACES, CHOICE) if name in self._before})
        shutil.rmtree(self._place, ignore_errors=True)


def _write_index(folder: Path, gpu: str, account: Account) -> None:
    """The index of the kept traces, as a Python program's run has it."""
    traces = [
        {
            "launch": int(path.name.partition(".")[0]),
            "file": str(path.relative_to(folder)),
            "kernel": path.name.split(".")[1],
        }
        for path in sorted(folder.rglob("[0-9]*.trace"))
    ]
    text = json.dumps({"gpu": gpu, "traces": traces, "launches": account.rows}, indent=2)
    with replacing(folder / INDEX) as stream:
        stream.write(text.encode() + b"\n")


def show(account: Account, options: Options, output: Path | None, form: str, every: bool = False) -> None:
    """Write what has become of the launches, to ``output`` or stderr; ``every``: rows of single launches too, however
    many."""
    if account.findings:
        click.echo(f"\n{format_cards(account.findings, 'table')}", err=True)
    for line in account.begun.values():
        click.echo(f"gpusim: launch {line['launch']} {line['kernel']} had not come to its end", err=True)
    records: list[dict[str, Any]] = account.rows
    if output is not None:
        with replacing(output) as stream:
            stream.write(format_records(records, form).encode() + b"\n")
    elif form != "table":
        click.echo(format_records(records, form), err=True)
    elif records:
        if options.simulate:
            state = "swept before each launch" if options.cold else "kept from launch to launch; --cold sweeps it"
            click.echo(f"\nlaunches on {options.gpu}, L2 {state}", err=True)
        click.echo(f"\n{launches_text(records, every)}", err=True)
    else:
        click.echo(f"gpusim: {none_ended(account)} on {options.gpu}", err=True)


def show_reasons(account: Account) -> None:
    """Say what limits the launches that were kept for it."""
    for launch, sentence in account.sentences:
        click.echo(f"\nlaunch {launch}: {sentence}", err=True)


def none_ended(account: Account) -> str:
    """Why there is no row to show."""
    counts = {"failed": account.failed, "interrupted": len(account.begun)}
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"no launch came to its end ({told})" if told else "the program launched no kernel"


def show_leaks(leaks: list[dict[str, Any]]) -> None:
    """What the program has not freed, on stderr."""
    if leaks:
        click.echo(f"\n{format_records(leaks, 'table')}", err=True)
    total, count = (sum(row[column] for row in leaks) for column in ("leaked_bytes", "allocations"))
    click.echo(f"gpusim: {total} bytes of device memory leaked in {count} allocations", err=True)
