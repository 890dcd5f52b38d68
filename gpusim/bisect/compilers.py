"""The versions of ptxas or NVRTC as an order: each compiles the case's kernels, which are then simulated, or looked at
alone.

Mental model: the compiler runs wherever it lies and everything else here, so that nothing but the compiler differs
between two points.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpusim.bisect.assemblers import assemble, compile_by_nvrtc, is_compiled, lowered_to, newest_ptx, ptx_of
from gpusim.bisect.compiled import compiled_figures
from gpusim.bisect.confirmation import run_name
from gpusim.bisect.install import install
from gpusim.bisect.installed import PTXAS
from gpusim.bisect.kept import find_reading, keep_reading, key_of
from gpusim.bisect.reading import Point, Reading
from gpusim.bisect.rebuilt import RebuiltCase, simulated_reading
from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.native_names import split_native
from gpusim.cases.native_shapes import COMPILED
from gpusim.cases.requests import parse_request
from gpusim.cases.suite import complete_shape, make_case, shape_text
from gpusim.errors import GpusimError, StoreError, ToolchainError, UsageError
from gpusim.frontend.native.kernels import CubinKernel
from gpusim.frontend.registry import front_end_of
from gpusim.gpus.spec import GpuSpec
from gpusim.io.whole_file import write_whole
from gpusim.store.hashes import gpu_hash
from gpusim.store.store import Store
from gpusim.watch.cell_worker import method_facts

#: Errors that say something of the machine, not of the version.
_PASSING = (ToolchainError, StoreError)


@dataclass(frozen=True)
class VersionPlace:
    """Where a version is: ``path``, or None where ``package`` has to be installed first."""

    version: str
    path: Path | None
    package: str = ""

    def found(self, tool: str) -> Path:
        """Its program or library. Raises ToolchainError."""
        return self.path if self.path is not None else install(tool, self.version, self.package)


class Compilers:
    """``places`` of versions of ``tool`` in order, for the case of ``request`` on ``spec``; ``compile_only``: nothing
    is run. Raises UsageError for a case without a kernel that the tool compiles."""

    def __init__(
        self, tool: str, places: list[VersionPlace], request: str, spec: GpuSpec, store: Store, *, small: bool = False,
        compile_only: bool = False,
    ) -> None:  # fmt: skip
        self.what, self._places, self._spec, self._store, self._small = tool, places, spec, store, small
        self._compile_only = compile_only
        self._name, self._shape = parse_request(request)
        self._request = request
        self.points = [Point(place.version, f"{tool} {place.version}") for place in places]
        case = self._case()
        kernels = [launch.kernel for launch in launches_ahead(case)]
        if not any(map(is_compiled, kernels)):
            raise UsageError(
                f"{self._name} has no kernel of CUDA C++ or PTX, which {tool} compiles; for one of Numba or Triton name the package that compiles it"
                " (--toolchain triton=3.8..3.9) or environments (--toolchain python=OLD/bin/python,NEW/bin/python)"
            )

    def _case(self) -> Any:
        return make_case(self._name, self._shape, self._spec, small=self._small)

    @cached_property
    def _newest_ptx(self) -> tuple[int, int] | None:
        """What the oldest of all versions takes, that they all get the same text."""
        return newest_ptx(self._places[0].found(self.what)) if self.what == PTXAS.name else None

    @cached_property
    def _sources(self) -> list[str]:
        """The text of what is compiled, which decides a reading beside the version."""
        kernels = [launch.kernel for launch in launches_ahead(self._case())]
        return [repr(_content(kernel)) for kernel in kernels if is_compiled(kernel)]

    def read(self, index: int) -> Reading:
        """The reading by a version, from the store where it was read before."""
        point = self.points[index]
        key = key_of(
            what=point.name, request=self._request, sources=self._sources, gpu=gpu_hash(self._spec), small=self._small,
            compile_only=self._compile_only, newest_ptx=self._newest_ptx, method=method_facts(),
        )  # fmt: skip
        known = find_reading(self._store, key)
        if known is not None:
            return known
        try:
            reading, lasts = self._read_now(index), True
        except UsageError:
            raise
        except GpusimError as error:
            reading, lasts = Reading(refused=str(error)), not isinstance(error, _PASSING)
        if lasts:
            keep_reading(self._store, key, point, reading, [self._request, point.name])
        return reading

    def measure_commands(self, points: Sequence[Point], folder: Path) -> tuple[str, ...]:
        """The commands that measure a case in a file of CUDA C++ or PTX as the versions at ``points`` compile it;
        writes their machine code into ``folder``. Empty for other cases: their arrays are made by Python, which takes
        the compiler that it finds."""
        native = split_native(self._name)
        if native is None:
            return ()
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for point in points:
            index = self.points.index(point)
            (kernel,) = [launch.kernel for launch in launches_ahead(self._case())]
            built = self._build(self._places[index].found(self.what), kernel, point.name)
            file = folder / f"{self.what}-{point.label}.cubin"
            write_whole(file, built.code)
            axes = {axis: value for axis, value in self._shape.items() if axis not in COMPILED[:4]}
            request = f"{file}:{built.entry}:{','.join(f'{axis}={value}' for axis, value in axes.items())}"
            name = run_name(self._request, point)
            lines.append(f"gpusim {shlex.join(['measure', request, '--gpu', self._spec.name, '--save', name])}")
        return tuple(lines)

    def _read_now(self, index: int) -> Reading:
        path = self._places[index].found(self.what)
        tools = self.points[index].name
        facts = {**method_facts(), "compiler": tools}
        case = self._case()
        built: dict[int, CubinKernel] = {}

        def replace(kernel: Any) -> Any:
            if not is_compiled(kernel):
                return kernel
            if id(kernel) not in built:
                built[id(kernel)] = self._build(path, kernel, tools)
            return built[id(kernel)]

        if not self._compile_only:
            shape = shape_text(complete_shape(self._name, self._shape, self._spec, small=self._small))
            return simulated_reading(RebuiltCase(case, replace), self._name, shape, self._spec, facts)
        values: dict[str, float] = {}
        sass: tuple[str, ...] = ()
        for launch in launches_ahead(case):
            if is_compiled(launch.kernel):
                kernel = replace(launch.kernel)
                figures = compiled_figures(front_end_of(kernel).compile(kernel, launch.args, self._spec.capability))
                values = _joined(values, figures.values)
                sass += figures.sass
        return Reading(values, (), sass, facts=facts)

    def _build(self, path: Path, kernel: Any, tools: str) -> CubinKernel:
        capability = self._spec.capability
        if self.what != PTXAS.name:
            return compile_by_nvrtc(path, kernel, capability, tools)
        text, entry, file, options, cooperative = ptx_of(kernel, capability)
        text = lowered_to(text, self._newest_ptx)
        return assemble(path, text, entry, file, options, capability, cooperative, tools)


def _joined(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Figures of several kernels: the most registers, the sum of everything else."""
    return {
        name: max(old.get(name, 0.0), value) if name == "registers" else old.get(name, 0.0) + value
        for name, value in new.items()
    }


def _content(kernel: Any) -> Any:
    """All that is compiled of a kernel; its text too, which its representation leaves out."""
    return [getattr(kernel, name, "") for name in ("source", "text", "entry", "options", "headers", "compiler", "link")]
