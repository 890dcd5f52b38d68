"""``gpusim run``: an unmodified Numba CUDA program on a machine with no GPU; the work."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from gpusim.commands.cold_start import is_cold, start_compiling_engine
from gpusim.commands.running_programs import Children, options_of, show_leaks, show_reasons
from gpusim.driver.device import Device, make_device
from gpusim.driver.ledger import Ledger
from gpusim.driver.programs import Account
from gpusim.driver.run import Ending, run_program
from gpusim.driver.wanted import Wanted
from gpusim.engine.gpu import simulate as simulate_trace
from gpusim.gpus.spec import GpuSpec
from gpusim.io.whole_file import replacing
from gpusim.report.tables import format_cards, format_records
from gpusim.sanitizer.checks import checks_of
from gpusim.why.explain import explain

#: Exit codes: a check has found something; a SIGTERM.
FINDINGS, TERMINATED = 1, 143


def run(
    gpu: str,
    as_module: bool,
    simulate: bool,
    sample: bool,
    cold: bool,
    why: bool,
    checks: str | None,
    kernel: str,
    launch_skip: int,
    launch_count: int | None,
    instruction_limit: int,
    record: Path | None,
    force: bool,
    leak_check: str,
    pageable_memory: bool,
    library_path: bool,
    output: Path | None,
    form: str,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """What :func:`gpusim.commands.run.run` declares, with its arguments."""
    chosen = checks_of(checks)
    simulate = simulate or why
    wanted = Wanted(simulate, sample, cold, why, chosen, kernel, launch_skip, launch_count, instruction_limit)
    device = make_device(gpu, pageable_memory)
    compiling = start_compiling_engine() if simulate else None
    if compiling is not None:
        compiling.wait()
    elif is_cold("emulator"):
        click.echo("compiling gpusim for this machine, once: about half a minute", err=True)

    options = options_of(
        gpu, simulate, sample, cold, why, chosen, kernel, launch_skip, launch_count, instruction_limit, record, leak_check,
        pageable_memory,
    )  # fmt: skip
    children = Children(options)

    def on_terminated(ledger: Ledger) -> None:
        click.echo("error: terminated", err=True)
        _show(ledger, children.account(), form, output, device.spec.name)
        children.close()
        _leave(TERMINATED)

    try:
        ending, ledger = _run(program, arguments, device, as_module, wanted, record, force, leak_check, on_terminated)
        account = children.account()
    finally:
        children.close()
    if ending.explanation:
        click.echo(f"error: {' '.join(ending.explanation.split())}", err=True)
    _show(ledger, account, form, output, device.spec.name)
    if ending.interrupted or not ending.at_rest:  # Python itself takes its time to end
        if ending.at_rest:
            atexit._run_exitfuncs()
        _leave(ending.exit_code)
    leaks = [*ledger.leaks, *account.leaks]
    if leak_check == "full":
        show_leaks(leaks)
    if why:
        _explain(ledger, device.spec, sample)
        show_reasons(account)
    return ending.exit_code or (FINDINGS if ledger.findings or account.findings or leaks else 0)


def _run(
    program: str,
    arguments: tuple[str, ...],
    device: Device,
    as_module: bool,
    wanted: Wanted,
    record: Path | None,
    force: bool,
    leak_check: str,
    on_terminated: Callable[[Ledger], None],
) -> tuple[Ending, Ledger]:
    return run_program(
        program,
        arguments,
        device,
        as_module=as_module,
        wanted=wanted,
        record=record,
        force=force,
        leak_check=leak_check == "full",
        say=lambda line: click.echo(f"gpusim: {line}", err=True),
        on_terminated=on_terminated,
    )


def _leave(code: int) -> NoReturn:
    """End the process now, whatever of the program still runs in it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a signal may have come in the middle of a write to it
            stream.flush()
    os._exit(code)


def _show(ledger: Ledger, account: Account, form: str, output: Path | None, gpu: str) -> None:
    """Write what has become of the launches, to ``output`` or stderr."""
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
        blank = [{key: "" if value is None else value for key, value in record.items()} for record in records]
        click.echo(f"\n{format_records(blank, form)}", err=True)
    else:
        click.echo(f"gpusim: {ledger.none_ended()} on {gpu}", err=True)


def _explain(ledger: Ledger, spec: GpuSpec, sample: bool) -> None:
    """Say what limits the launches that were kept for it."""
    for kept in ledger.kept:
        warm = () if kept.before is None else (kept.before,)
        result = simulate_trace(kept.trace, spec, warm=warm, sample=sample)
        found = explain([kept.trace], spec, result, warm=warm, sample=sample)
        click.echo(f"\nlaunch {kept.number}: {found.sentence}", err=True)
