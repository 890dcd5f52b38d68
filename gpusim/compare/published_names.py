"""Whether something is published under the names that ``gpusim compare`` is given, without loading the simulator.

Raises :class:`UnknownKernelError`, :class:`NoDataError` and :class:`UsageError`, each naming what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpusim.cases.names import is_reference, kernel_names
from gpusim.cases.native_names import is_native
from gpusim.cases.networks import pinned_suites
from gpusim.cases.requests import parse_request
from gpusim.errors import GpusimError, NoDataError, UnknownKernelError, UsageError
from gpusim.io.nearest import hint
from gpusim.silicon.published import PublishedPoint


def refuse_unpublished(kernels: Iterable[str], published: Sequence[PublishedPoint]) -> None:
    """Raise for the first of ``kernels`` that is no published series."""
    known = {point.series for point in published}
    for kernel in kernels:
        if kernel not in known:
            raise _unpublished(kernel, sorted(known))


def refuse_unpublished_on(kernels: Sequence[str], gpus: Iterable[str], published: Sequence[PublishedPoint]) -> None:
    """Raise if none of ``kernels``, the series that are wanted, has points on one of the built-in ``gpus``."""
    gpus = sorted(set(gpus))
    if kernels and not any(point.gpu in gpus and point.series in kernels for point in published):
        raise nothing_published(kernels, gpus, [point for point in published if point.series in kernels])


def nothing_published(kernels: Sequence[str], gpus: Sequence[str], there: Iterable[PublishedPoint]) -> NoDataError:
    """What is said where none of ``kernels`` was measured on ``gpus``; ``there``: the points elsewhere."""
    what = ", ".join(kernels) if kernels else "any kernel"
    pairs = sorted({f"{point.series} on {point.gpu}" for point in there})
    return NoDataError(f"nothing is published for {what} on {', '.join(gpus)}; there is {'; '.join(pairs)}")


def _unpublished(kernel: str, series: Sequence[str]) -> GpusimError:
    """Why ``kernel``, as it was asked for, has no published series."""
    name, shape = parse_request(kernel)
    if name in series:  # and a shape behind it
        points = "--all-points takes every point" if shape else "write its name alone"
        return UsageError(f"{kernel}: the published series {name} is compared as a whole; {points}")
    if name in (*kernel_names(), *pinned_suites()):
        return NoDataError(
            f"nothing is published for {name}; there are measurements of {', '.join(series)};"
            " other kernels, shapes and suites are compared with rows: --against FILE, RUN, recorded or silicon"
        )
    if Path(kernel).is_file():
        return UsageError(
            f"{kernel} is a file: rows are given with --against {kernel}; a suite's file needs rows to be compared with"
        )
    if is_reference(name) or is_native(name):
        return NoDataError(
            f"nothing is published for {name}, a kernel of your own: measure it on a GPU (gpusim measure ... -o rows.jsonl), then"
            " give --against rows.jsonl"
        )
    near = hint(name, [*series, *kernel_names()], f"there are measurements of {', '.join(series)}")
    return UnknownKernelError(f"no kernel and no published series is called {name!r}; {near}")
