"""Properties by name, with the options that the command line, a finding's file and a test give them.

Mental model: an options mapping of plain texts and numbers is all that a property is made from, so that a finding's
file can make the same one again. A team's own property is registered with :func:`register`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpusim.cases.suite import find_kernel, make_case
from gpusim.cases.user_entries import axes_of_work
from gpusim.cases.user_kernels import is_reference, load_object, make_user_case
from gpusim.errors import UsageError
from gpusim.explore.against_rows import Silicon
from gpusim.explore.counts import Counts
from gpusim.explore.laws import Metamorphic
from gpusim.explore.properties import Analytic, Bounds, Builds, Gpus, Invariance, Numpy, Property
from gpusim.explore.versions import OtherGpusim, Versions
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.nearest import hint
from gpusim.silicon.imports import read_rows
from gpusim.silicon.recorded import load_recorded

Maker = Callable[[GpuSpec, Mapping[str, Any]], Property]


def _gpus(gpu: GpuSpec, options: Mapping[str, Any]) -> Property:
    if not options.get("other_gpu") and not options.get("other_set"):
        raise UsageError("property gpus compares two descriptions: give --other-gpu NAME or --other-set KEY=VALUE")
    base = load_gpu(options["other_gpu"]) if options.get("other_gpu") else gpu
    return Gpus(gpu, override_gpu(base, str(options.get("other_set", "")).split()))


def _builds(gpu: GpuSpec, options: Mapping[str, Any]) -> Property:
    other = options.get("other_kernel")
    if not other:
        raise UsageError(
            "property builds compares two kernels of the same axes: give --other-kernel NAME or FILE.py:FUNCTION"
        )
    if is_reference(str(other)):
        load_object(str(other))  # refuses a file or function that is not there; its axes are the first one's
        return Builds(gpu, lambda _kernel, shape: make_user_case(str(other), dict(shape)))
    axes = find_kernel(str(other)).axes
    sizes = axes_of_work()

    def build_b(kernel: str, shape: Mapping[str, Any]) -> Any:
        lacking = [axis for axis in shape if axis in sizes and axis not in axes]
        if lacking:
            raise UsageError(
                f"kernel {other} has no axis {', '.join(lacking)}, which {kernel} has: they do different work"
            )
        return make_case(str(other), {axis: value for axis, value in shape.items() if axis in axes}, gpu)

    return Builds(gpu, build_b)


def _silicon(gpu: GpuSpec, options: Mapping[str, Any]) -> Property:
    files = str(options.get("rows", "")).split("\n") if options.get("rows") else []
    rows = [row for file in files for row in read_rows(Path(file))] if files else load_recorded()
    return Silicon(gpu, str(options.get("measured_as", gpu.name)), rows)


#: One process a path, whatever is asked of it: it has compiled its kernels.
_other_gpusim = functools.cache(OtherGpusim)


def _versions(gpu: GpuSpec, options: Mapping[str, Any]) -> Property:
    if not options.get("other_gpusim"):
        raise UsageError("property versions compares with another gpusim: give --other-gpusim FOLDER or PYTHON")
    settings = [text for text in str(options.get("settings", "")).split("\n") if text]
    return Versions(gpu, str(options.get("gpu", gpu.name)), settings, _other_gpusim(str(options["other_gpusim"])))


_MAKERS: dict[str, Maker] = {
    "bounds": lambda gpu, _options: Bounds(gpu),
    "analytic": lambda gpu, _options: Analytic(gpu),
    "gpus": _gpus,
    "builds": _builds,
    "metamorphic": lambda gpu, _options: Metamorphic(gpu),
    "invariance": lambda gpu, _options: Invariance(gpu),
    "numpy": lambda gpu, _options: Numpy(gpu),
    "counts": lambda gpu, _options: Counts(gpu),
    "versions": _versions,
    "silicon": _silicon,
}


def register(name: str, make: Maker) -> None:
    """Add a property under ``name``; ``make(gpu, options)`` returns it. UsageError for a name that is taken."""
    if name in _MAKERS:
        raise UsageError(f"a property called {name} exists already")
    _MAKERS[name] = make


def property_names() -> list[str]:
    """The registered properties."""
    return list(_MAKERS)


def make_property(name: str, gpu: GpuSpec, options: Mapping[str, Any]) -> Property:
    """The property called ``name`` on ``gpu``. ``options``: ``threshold`` (a share) for any; ``other_gpu`` and
    ``other_set`` (settings separated by blanks) for gpus; ``other_kernel`` (a name, or ``file.py:function``) for builds;
    ``other_gpusim``, ``gpu`` and ``settings`` (a line each) for versions; ``rows`` (files, a line each) and
    ``measured_as`` for silicon. Raises UsageError and what loading a GPU raises."""
    if name not in _MAKERS:
        raise UsageError(f"no property is called {name!r}; {hint(name, _MAKERS)}")
    made = _MAKERS[name](gpu, options)
    if options.get("threshold") is not None:
        made.threshold = float(options["threshold"])
    return made
