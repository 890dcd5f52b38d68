"""``gpusim capture``: run a kernel of the suite, or of the user's own, on the CPU and keep its trace; the work."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import click

from gpusim.cases.run_case import NO_CHECK, SAMPLED, check_result
from gpusim.cases.suite import CaseTrace, capture_case, make_case, parse_request
from gpusim.commands.cold_start import is_cold
from gpusim.commands.unchecked import tell_unchecked, tell_whole
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.whole_file import folder_for, is_special
from gpusim.report.tables import format_records
from gpusim.sanitizer.checks import checks_of

#: Exit codes: the result is not NumPy's; a check has found something.
FINDINGS = 1


def capture(
    kernel: str,
    gpu: str,
    output: Path | None,
    small: bool,
    checks: str | None,
    sample: bool,
    instruction_limit: int,
    form: str,
) -> int:
    """What :func:`gpusim.commands.capture.capture` declares, with its arguments."""
    chosen = checks_of(checks)
    name, shape = parse_request(kernel)
    spec = load_gpu(gpu)
    case = make_case(name, shape, spec, small=small)
    if is_cold("emulator"):
        click.echo("compiling gpusim for this machine, once: about half a minute", err=True)
    if output is None:
        launches = capture_case(case, spec, check=chosen, instruction_limit=instruction_limit)
        return _verdict(name, case, spec, launches, bool(checks), form)
    try:
        with folder_for(output) as folder:
            launches = capture_case(
                case, spec, folder=folder, check=chosen, instruction_limit=instruction_limit, sample=sample
            )
            code = _verdict(name, case, spec, launches, bool(checks), form)
            if code:
                return code
            records = [_keep(folder, output, index, launches) for index in range(len(launches))]
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise type(error)(error.errno, error.strerror, str(output)) from None
    if not checks:
        click.echo(format_records(records, form))
    return 0


def _verdict(name: str, case: Any, spec: GpuSpec, launches: list[CaseTrace], checked: bool, form: str) -> int:
    """Exit code of what was captured; prints the findings of a checked capture, none too."""
    findings = [
        {"launch": index, "kernel": launch.trace.launch.kernel, **finding.as_record()}
        for index, launch in enumerate(launches)
        for finding in launch.trace.findings
    ]
    if findings:
        click.echo(format_records(findings, form))
        click.echo(f"{name} on {spec.name}: {len(findings)} findings", err=True)
        return FINDINGS
    if checked:  # said before the result is judged: where it is wrong, what was found to be right is half of the answer
        click.echo(format_records([], form))
        click.echo(f"{name} on {spec.name}: no findings", err=True)
    traces = [launch.trace for launch in launches]
    if not all(trace.has_results for trace in traces):
        tell_unchecked({name: SAMPLED})
    elif not check_result(case, name, spec):
        tell_unchecked({name: NO_CHECK})
    tell_whole(traces)
    return 0


def _keep(folder: Path, output: Path, index: int, launches: list[CaseTrace]) -> dict[str, object]:
    """Move one launch's file from ``folder`` to where it was asked for; returns its row of the table."""
    path = output
    if len(launches) > 1:
        path = output.with_name(f"{output.stem}.{index}{output.suffix or '.trace'}")
    captured = folder / f"{index}.trace"
    size = captured.stat().st_size
    if is_special(path):
        with captured.open("rb") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
    else:
        os.replace(captured, path)
    trace = launches[index].trace
    return {
        "file": str(path),
        "kernel": trace.launch.kernel,
        "timed": launches[index].timed,
        "blocks": trace.launch.blocks,
        "warp_instructions": trace.warp_instructions,
        "bytes": size,
    }
