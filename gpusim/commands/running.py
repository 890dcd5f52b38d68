"""``gpusim run``: an unmodified Numba CUDA program on a machine with no GPU; the work."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from gpusim.commands.cold_start import is_cold, start_compiling_engine
from gpusim.commands.run_request import RunRequest
from gpusim.commands.running_programs import Children, show_leaks, show_reasons
from gpusim.driver.device import Device, make_device
from gpusim.driver.ledger import Ledger
from gpusim.driver.programs import Account
from gpusim.driver.run import Ending, run_program
from gpusim.driver.wanted import Wanted
from gpusim.engine.gpu import simulate as simulate_trace
from gpusim.gpus.spec import GpuSpec
from gpusim.io.whole_file import replacing
from gpusim.report.launches import launches_text
from gpusim.report.tables import format_cards, format_records
from gpusim.why.explain import explain

#: Exit codes: a check has found something; a SIGTERM.
FINDINGS, TERMINATED = 1, 143


def run(**options: Any) -> int:
    """What :func:`gpusim.commands.run.run` declares, with its arguments."""
    asked = RunRequest(**options)
    wanted = asked.wanted()
    device = make_device(asked.gpu, asked.pageable_memory, asked.devices or 1)
    compiling = start_compiling_engine() if asked.simulates else None
    if compiling is not None:
        compiling.wait()
    elif is_cold("emulator"):
        click.echo("compiling gpusim for this machine, once: about half a minute", err=True)
    children = Children(asked.options(), keeps_choice=asked.devices is not None)

    def on_terminated(ledger: Ledger) -> None:
        click.echo("error: terminated", err=True)
        _show(ledger, children.account(), asked, device.spec.name)
        children.close()
        _leave(TERMINATED)

    try:
        ending, ledger = _run(asked, device, wanted, on_terminated)
        account = children.account()
    finally:
        children.close()
    if ending.explanation:
        click.echo(f"error: {' '.join(ending.explanation.split())}", err=True)
    _show(ledger, account, asked, device.spec.name)
    if asked.misplaced:
        click.echo(asked.misplaced, err=True)
    if ending.interrupted or not ending.at_rest:  # Python itself takes its time to end
        if ending.at_rest:
            atexit._run_exitfuncs()
        _leave(ending.exit_code)
    leaks = [*ledger.leaks, *account.leaks]
    if asked.finds_leaks:
        show_leaks(leaks)
    if asked.why:
        _explain(ledger, device.spec, asked.sample)
        show_reasons(account)
    return ending.exit_code or (FINDINGS if ledger.findings or account.findings or leaks else 0)


def _run(
    asked: RunRequest, device: Device, wanted: Wanted, on_terminated: Callable[[Ledger], None]
) -> tuple[Ending, Ledger]:
    return run_program(
        asked.program,
        asked.arguments,
        device,
        as_module=asked.as_module,
        wanted=wanted,
        record=asked.record,
        force=asked.force,
        leak_check=asked.finds_leaks,
        say=lambda line: click.echo(f"gpusim: {line}", err=True),
        on_terminated=on_terminated,
    )


def _leave(code: int) -> NoReturn:
    """End the process now, whatever of the program still runs in it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a signal may have come in the middle of a write to it
            stream.flush()
    os._exit(code)


def _show(ledger: Ledger, account: Account, asked: RunRequest, gpu: str) -> None:
    """Write what has become of the launches, to the output that was asked for or stderr."""
    output, form = asked.output, asked.form
    with contextlib.suppress(RuntimeError):  # as above
        sys.stdout.flush()
    if findings := [*ledger.findings, *account.findings]:
        click.echo(f"\n{format_cards(findings, 'table')}", err=True)
    if standing := ledger.interrupted():
        click.echo(f"gpusim: {standing}", err=True)
    records = ledger.records()
    if account.rows:
        records = [{"process": 0, **record} for record in records] + account.rows
    if output is not None:
        with replacing(output) as stream:
            stream.write(format_records(records, form).encode() + b"\n")
    elif form != "table":
        click.echo(format_records(records, form), err=True)
    elif records:
        if ledger.wanted.simulate:
            state = "swept before each launch" if ledger.wanted.cold else "kept from launch to launch; --cold sweeps it"
            click.echo(f"\nlaunches on {gpu}, L2 {state}", err=True)
        click.echo(f"\n{launches_text(records, asked.all_launches)}", err=True)
    else:
        click.echo(f"gpusim: {ledger.none_ended()} on {gpu}", err=True)


def _explain(ledger: Ledger, spec: GpuSpec, sample: bool) -> None:
    """Say what limits the launches that were kept for it."""
    for kept in ledger.kept:
        warm = () if kept.before is None else (kept.before,)
        result = simulate_trace(kept.trace, spec, warm=warm, sample=sample)
        found = explain([kept.trace], spec, result, warm=warm, sample=sample)
        click.echo(f"\nlaunch {kept.number}: {found.sentence}", err=True)
