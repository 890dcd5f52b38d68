"""Record the pinned suites on the GPU of this machine, as rows that go under traces/silicon.

Mental model: one file of rows and a manifest a GPU. The suites' points are measured in groups, cold and warm, by
CUPTI's records (or else CUDA events) and, where counters are permitted, by Nsight Compute; every row is on disk before
the next group begins. Run it again and it goes on where it stopped: a point whose rows are there (same machine code,
shape, cache state, method) is left out. So a machine that is lent for ten minutes at a time is used in calls of ten
minutes.

    python tools/record_silicon.py --out traces/silicon --budget 500

It runs in the repository's root with gpusim imported from the tree, and needs numba, numba-cuda (with cuda-bindings),
numpy, msgspec and click; nvidia-ml-py, if it is there, adds throttling reasons. With no GPU it says so and ends with
code 3.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NEEDED = {
    "numpy": "numpy",
    "click": "click",
    "numba": "numba",
    "numba.cuda": "numba-cuda[cu13]",
    "cuda.bindings": "cuda-bindings",
    "msgspec": "msgspec",
}
COULD_NOT_MEASURE = 3


def _missing() -> list[str]:
    """Distributions without which nothing can be measured."""
    found = []
    for module, distribution in NEEDED.items():
        try:
            present = importlib.util.find_spec(module) is not None
        except ImportError:
            present = False
        if not present:
            found.append(distribution)
    return found


sys.path.insert(0, str(ROOT))
if _missing():
    print(
        f"error: measuring needs {', '.join(_missing())}: pip install {' '.join(map(repr, _missing()))}",
        file=sys.stderr,
    )
    sys.exit(COULD_NOT_MEASURE)

import click

try:
    from gpusim.cases.suite import complete_shape, make_case, shape_text
    from gpusim.errors import GpusimError, SiliconError
    from gpusim.frontend.toolchain_versions import toolchain
    from gpusim.gpus.load import load_gpu
    from gpusim.gpus.spec import GpuSpec
    from gpusim.measure.builds import Builder, Compiler, Pack, launch_key, write_pack
    from gpusim.measure.cuda_driver import CudaDriver
    from gpusim.measure.ncu import PERMISSION, find_ncu, profile_cases
    from gpusim.measure.passes import COLD, CUPTI, EVENTS, WARM
    from gpusim.measure.run import MeasureOptions, MeasureRequest, described, measure_cases
    from gpusim.silicon.names import gpu_of_device
    from gpusim.silicon.row import SiliconRow
    from gpusim.silicon.rows import append_rows, read_rows_file
    from tools.silicon_questions import POINTS as QUESTION_POINTS
    from workloads.curves import CURVES
    from workloads.pinned import SUITES
except ImportError as error:  # another version than pyproject.toml asks for
    print(
        f"error: {error}: measuring needs the versions in pyproject.toml: pip install 'numba-cuda[cu13]>=0.30,<0.31'",
        file=sys.stderr,
    )
    sys.exit(COULD_NOT_MEASURE)

MANIFEST = "manifest.json"
#: Points measured side by side before their rows are written.
GROUP = 8
#: Seconds that one kernel needs at most under ncu: start, load, five passes of all counters.
NCU_SECONDS_A_POINT = 12
#: What --suite names beside the pinned suites.
MORE = CURVES | {"questions": QUESTION_POINTS}
#: Key of a point: kernel, complete shape, cache state, method.
Key = tuple[str, str, str, str]
NCU = "ncu"
METHODS = (CUPTI, EVENTS, NCU)


def points(suites: Iterable[str], spec: GpuSpec | None) -> list[tuple[MeasureRequest, str]]:
    """Every point of the suites once, with its complete shape."""
    found: dict[tuple[str, str], MeasureRequest] = {}
    for suite in suites:
        for name, shape in SUITES[suite] if suite in SUITES else MORE[suite]:
            text = shape_text(complete_shape(name, dict(shape), spec))
            found.setdefault((name, text), MeasureRequest(name, dict(shape)))
    return [(request, text) for (_, text), request in found.items()]


def have(rows: Iterable[SiliconRow], current: Callable[[SiliconRow], bool]) -> set[Key]:
    """What is measured already, or found to compute wrongly. Rows that a budget cut short, and rows of other machine
    code than ``current`` says a kernel has now, are measured again."""
    done = set()
    for row in rows:
        if "wrong_result" in row.flags:
            done |= {(row.kernel, row.shape, cache, method) for cache in (COLD, WARM) for method in METHODS}
        elif "budget_ended" not in row.flags and current(row):
            done.add((row.kernel, row.shape, row.cache, row.method))
    return done


class MachineCode:
    """Whether a row's machine code is what its kernel compiles to today; a kernel is built once, when first asked
    about."""

    def __init__(
        self,
        every: list[tuple[MeasureRequest, str]],
        spec: GpuSpec | None,
        capability: tuple[int, int],
        builder: Builder,
    ):
        self._builder = builder
        self._requests = {(request.name, text): request for request, text in every}
        self._spec, self._capability = spec, capability
        self._hashes: dict[tuple[str, str], list[str]] = {}

    def is_current(self, row: SiliconRow) -> bool:
        """Rows of points that are in no suite (any more) count as current: nothing here would replace them."""
        key = row.kernel, row.shape
        request = self._requests.get(key)
        if request is None:
            return True
        if key not in self._hashes:
            case = make_case(request.name, request.shape, self._spec)
            self._hashes[key] = [
                code_hash(launch, self._capability, self._builder, launch_key(*key, index))
                for index, launch in enumerate(case.launches)
                if launch.timed
            ]
        return row.launch < len(self._hashes[key]) and self._hashes[key][row.launch] == row.cubin_hash


def drop_superseded(path: Path) -> None:
    """Keep the newest row of each launch, cache state and method; the file is replaced whole."""
    rows = {(row.kernel, row.shape, row.launch, row.cache, row.method): row for row in read_rows_file(path)}
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    append_rows(part, rows.values())
    os.replace(part, path)


class Plan:
    """The points of a GPU and the file ``path`` of their rows."""

    def __init__(
        self,
        every: list[tuple[MeasureRequest, str]],
        path: Path,
        spec: GpuSpec | None,
        capability: tuple[int, int],
        builder: Builder,
    ):
        self.every, self.path, self.builder = every, path, builder
        self._code = MachineCode(every, spec, capability, builder)

    def todo(self, cache: str, method: str) -> list[tuple[MeasureRequest, str]]:
        """Points without rows in that cache state by that method."""
        done = have(read_rows_file(self.path), self._code.is_current) if self.path.exists() else set()
        return [(request, text) for request, text in self.every if (request.name, text, cache, method) not in done]


def write_manifest(folder: Path) -> None:
    """Say what lies in ``folder``: each file's rows and hash, and what it was measured with."""
    entries = []
    for path in sorted(folder.glob("*.jsonl")):
        rows = read_rows_file(path)
        entries.append(
            {
                "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "rows": len(rows),
                "gpu": sorted({row.gpu for row in rows}),
                "device": sorted({row.device_name for row in rows}),
                "driver": sorted({row.driver for row in rows}),
                "toolchain": sorted({row.toolchain for row in rows}),
                "methods": sorted({row.method for row in rows}),
                "sm_clock_mhz": [f(row.sm_clock_mhz for row in rows if row.sm_clock_mhz) for f in (min, max)]
                if any(row.sm_clock_mhz for row in rows)
                else [],
                "dates": [min(row.date for row in rows), max(row.date for row in rows)] if rows else [],
            }
        )
    document = {
        "about": "Rows measured on silicon by tools/record_silicon.py; one JSON line a launch, cache state and method.",
        "written": datetime.date.today().isoformat(),
        "files": entries,
    }
    part = folder / f".{MANIFEST}.part"
    part.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(part, folder / MANIFEST)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / "traces" / "silicon",
    help="Folder that gets one folder a GPU.  [default: traces/silicon]",
)
@click.option("--budget", type=click.FloatRange(min=1), default=500.0, show_default=True, help="Seconds in all.")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    type=click.Choice([*SUITES, *MORE]),
    help="Which pinned suites, curves or open questions.  [default: all pinned suites]",
)
@click.option("--method", type=click.Choice(["all", *METHODS]), default="all", show_default=True)
@click.option("--device", default=0, show_default=True, help="Which GPU of this machine.")
@click.option(
    "--pack",
    type=click.Path(file_okay=False, path_type=Path),
    help="Measure nothing: compile every point for --gpu into this folder, to carry to a machine with other compilers.",
)
@click.option("--gpu", default="h200", show_default=True, metavar="NAME", help="The GPU that --pack compiles for.")
@click.option(
    "--cubins",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure the machine code of such a folder.",
)
@click.option(
    "--list", "only_list", is_flag=True, help="Print the points and how many are still to do, and measure nothing."
)
def main(
    out: Path,
    budget: float,
    suites: tuple[str, ...],
    method: str,
    device: int,
    pack: Path | None,
    gpu: str,
    cubins: Path | None,
    only_list: bool,
) -> int:
    """Record the pinned suites on this machine's GPU within a budget, going on where the last run stopped.

    The pinned suites are what `gpusim compare` is judged on; the curves (latency, pipes, sm, bandwidth, dispatch) isolate
    one parameter of the machine each, for its description; the questions are those of tools/silicon_questions.py.

    Writes OUT/<gpu>/suite.jsonl (one row a launch, cache state and method) and OUT/<gpu>/manifest.json. Clocks are measured,
    never set. First all points by CUPTI's records of kernels (by CUDA events where they cannot be had), then, in the time that is
    left, by Nsight Compute.

    \b
    Examples:
      python tools/record_silicon.py --budget 500
      python tools/record_silicon.py --out $OUT --suite quick --method events
      python tools/record_silicon.py --list
      python tools/record_silicon.py --pack cubins --gpu h200 && python tools/record_silicon.py --cubins cubins

    \b
    Exit codes: 0 everything is recorded; 3 no GPU, or the budget ended first (run it again); 1 a kernel computes wrongly.
    """
    if pack is not None:
        return _pack(pack, suites or SUITES, load_gpu(gpu))
    builder = Compiler() if cubins is None else Pack(cubins)
    started = time.monotonic()
    with CudaDriver(device) as driver:
        facts = driver.facts()
        name = gpu_of_device(facts.name)
        folder = out / (name or "".join(c if c.isalnum() else "_" for c in facts.name.lower()))
        folder.mkdir(parents=True, exist_ok=True)
        spec = described(facts, "")
        plan = Plan(points(suites or SUITES, spec), folder / "suite.jsonl", spec, facts.capability, builder)
        _say(f"{facts.name}, driver {facts.driver}: {len(plan.every)} points into {plan.path}")
        used = _methods(driver, method)
        if only_list:
            return _list(plan, used)
        for timed in (each for each in used if each != NCU):
            for cache in (COLD, WARM):
                _by_times(driver, plan, cache, timed, budget - (time.monotonic() - started))
    if NCU in used and not _by_ncu(plan, budget - (time.monotonic() - started), device) and method == "all":
        used = tuple(each for each in used if each != NCU)
    return _finish(plan, used)


def _methods(driver: CudaDriver, wanted: str) -> tuple[str, ...]:
    """What is measured by here: ``all`` is times by CUPTI or else events, and counters where there is an ncu."""
    if wanted != "all":
        return (wanted,)
    problem = driver.trace(True)
    driver.trace(False)
    if problem:
        _say(f"times by CUDA events, for kernels cannot be traced: {problem}")
    if find_ncu() is None:
        _say("no counters: ncu is not on PATH")
    return (EVENTS if problem else CUPTI, *((NCU,) if find_ncu() is not None else ()))


def _pack(folder: Path, suites: Iterable[str], spec: GpuSpec) -> int:
    every = points(suites, spec)
    cases = ((request.name, text, make_case(request.name, request.shape, spec)) for request, text in every)
    count = write_pack(folder, cases, spec, toolchain())
    _say(f"{count} kernels of {len(every)} points for {spec.name} in {folder}")
    return 0


def _say(line: str) -> None:
    click.echo(line, err=True)


def _list(plan: Plan, methods: Iterable[str]) -> int:
    for used in methods:
        for cache in (COLD, WARM):
            for request, text in plan.todo(cache, used):
                click.echo(f"{used} {cache} {request.name}:{text}")
    return 0


def _by_times(driver: CudaDriver, plan: Plan, cache: str, method: str, seconds: float) -> None:
    todo = plan.todo(cache, method)
    end = driver.now_seconds() + seconds
    for start in range(0, len(todo), GROUP):
        left = end - driver.now_seconds()
        if left < 1:
            return
        group = [request for request, _ in todo[start : start + GROUP]]
        # A group may take twice its share; what it leaves goes to the others.
        share = min(left, 2 * left * len(group) / (len(todo) - start))
        append_rows(
            plan.path,
            measure_cases(driver, group, MeasureOptions(share, (cache,), builder=plan.builder, method=method), _say),
        )


def _by_ncu(plan: Plan, seconds: float, device: int) -> bool:
    """Measure the counters; whether they may be read here at all."""
    end = time.monotonic() + seconds
    for cache in (COLD, WARM):
        todo = plan.todo(cache, NCU)
        for start in range(0, len(todo), GROUP):
            group = [f"{request.name}:{text}" for request, text in todo[start : start + GROUP]]
            needed = NCU_SECONDS_A_POINT * len(group)
            if end - time.monotonic() < needed:
                _say(f"the budget is spent: {len(todo) - start} points by ncu, {cache}, are left")
                return True
            try:
                append_rows(
                    plan.path,
                    profile_cases(group, MeasureOptions(needed, (cache,), builder=plan.builder), device, False, _say),
                )
            except SiliconError as error:
                if PERMISSION in str(error):
                    _say(f"no counters: {error}")
                    return False
                _say(f"ncu, {cache}: {error}")
    return True


def _finish(plan: Plan, used: Iterable[str]) -> int:
    if plan.path.exists():
        drop_superseded(plan.path)
    rows = read_rows_file(plan.path) if plan.path.exists() else []
    write_manifest(plan.path.parent)
    left = sum(len(plan.todo(cache, each)) for cache in (COLD, WARM) for each in used)
    wrong = sorted({f"{row.kernel}:{row.shape}" for row in rows if "wrong_result" in row.flags})
    _say(f"{len(rows)} rows in {plan.path}; {left} measurements are left" + (": run it again" if left else ""))
    if wrong:
        _say(f"computes wrongly: {', '.join(wrong)}")
        return 1
    return COULD_NOT_MEASURE if left else 0


def code_hash(launch: Any, capability: tuple[int, int], builder: Builder, key: str) -> str:
    """Hash of the machine code that a launch of a case runs on a GPU of ``capability``; needs no GPU."""
    return builder.build(launch.kernel, tuple(launch.args), capability, key).image.sha256


if __name__ == "__main__":
    try:
        code = main.main(standalone_mode=False)
    except GpusimError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except (KeyboardInterrupt, click.Abort):
        print("error: interrupted; the rows so far are kept", file=sys.stderr)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
