"""``gpusim compare``: simulated beside measured, launch by launch or point by point, and a verdict on each; the
work."""

from __future__ import annotations

from pathlib import Path

from gpusim.commands import compare_measured, compare_published
from gpusim.commands.compare_options import CompareOptions


def compare(
    kernels: tuple[str, ...],
    gpus: tuple[str, ...],
    against: str,
    settings: tuple[str, ...],
    all_points: bool,
    tolerance: float,
    tolerance_cycles: float,
    why: bool,
    check: bool,
    strict: bool,
    save: str,
    baseline: str,
    junit: Path | None,
    markdown: Path | None,
    page: Path | None,
    jobs: int,
    form: str,
) -> int:
    """What :func:`gpusim.commands.compare.compare` declares, with its arguments."""
    chosen = CompareOptions(
        kernels,
        gpus,
        against,
        settings,
        tolerance,
        tolerance_cycles,
        why,
        check or strict,
        strict,
        save,
        baseline,
        junit,
        markdown,
        page,
        form,
    )
    if against == "published":
        return compare_published.run(chosen, all_points, jobs)
    return compare_measured.run(chosen)
