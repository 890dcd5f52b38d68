"""``gpusim check-claim``: whether a claimed time is possible and what was timed did its work; the work."""

from __future__ import annotations

import json
from typing import Any

import click

from gpusim.claims.check import Claim
from gpusim.claims.check import check_claim as check_case
from gpusim.claims.program import ProgramClaim, check_program, check_traces, program_traces
from gpusim.claims.verdict import ClaimVerdict, JudgedClaim
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.report.tables import format_records

#: Exit codes by verdict.
CODES = {ClaimVerdict.IMPOSSIBLE: 1, ClaimVerdict.INVALID: 1, ClaimVerdict.WRONG: 6}
SUSPECT = 4
MOST_BOUNDS = 6


def check_claim(
    kernel: str, program_arguments: tuple[str, ...], time_us: float, gpu: str, settings: tuple[str, ...], small: bool, cache: str, reference: str,
    against: str, tolerance: float | None, program: bool, kernel_name: str, pageable_memory: bool, seed: int, strict: bool,
    instruction_limit: int, form: str,
) -> int:  # fmt: skip
    """What :func:`gpusim.commands.check_claim.check_claim` declares, with its arguments."""
    warm = cache == "warm"
    spec = override_gpu(load_gpu(gpu), settings)
    if program:
        judged = check_program(
            ProgramClaim(kernel, program_arguments, time_us, gpu, kernel_name, warm, pageable_memory)
        )
    elif traces := program_traces(kernel):
        judged = check_traces(traces, time_us, spec, warm=warm)
    else:
        judged = check_case(
            Claim(kernel, time_us, spec, small, warm, reference, against, tolerance, seed, instruction_limit)
        )
    _print(kernel, spec.name, judged, form)
    if judged.verdict in CODES:
        return CODES[judged.verdict]
    return SUSPECT if strict and judged.is_suspect else 0


def _print(kernel: str, gpu: str, judged: JudgedClaim, form: str) -> None:
    if form == "json":
        click.echo(json.dumps(_document(kernel, gpu, judged), indent=2, allow_nan=False))
        return
    bounds = [
        {"unit": each.unit, "least_us": each.least_us, "arithmetic": each.arithmetic}
        for each in judged.bounds[:MOST_BOUNDS]
    ]
    findings = [{"weight": str(each.weight), "finding": each.kind, "what": each.message} for each in judged.findings]
    if form == "csv":
        head = {
            "kernel": kernel,
            "gpu": gpu,
            "verdict": str(judged.verdict),
            "claimed_us": judged.claimed_us,
            "reason": judged.reason,
        }
        click.echo(format_records([head], form))
        return
    click.echo(f"{kernel} on {gpu}: {judged.verdict}: {judged.reason}")
    click.echo("results were held against " + (judged.checked or "nothing: give --reference or --against"))
    click.echo("\n" + format_records(bounds, form))
    if findings:
        click.echo("\n" + format_records(findings, form))


def _document(kernel: str, gpu: str, judged: JudgedClaim) -> dict[str, Any]:
    interval = judged.interval
    return {
        "kernel": kernel, "gpu": gpu, "verdict": str(judged.verdict), "reason": judged.reason, "claimed_us": judged.claimed_us,
        "least_us": max((each.least_us for each in judged.bounds), default=None), "suspect": judged.is_suspect,
        "predicted_us": judged.predicted_us,
        "interval_us": None if interval is None else [interval.low_us, interval.high_us],
        "interval_percent": None if interval is None else interval.level_percent,
        "outside_validation": [] if interval is None else list(interval.outside),
        "checked_against": judged.checked,
        "bounds": [{"unit": each.unit, "least_us": each.least_us, "arithmetic": each.arithmetic} for each in judged.bounds],
        "findings": [{"kind": each.kind, "weight": str(each.weight), "message": each.message} for each in judged.findings],
    }  # fmt: skip
