"""A process that gives cells their values: a task a line in, a result a line out, as JSON.

Mental model: it runs in a checkout of the commit, by the Python of the cell's toolchain, so that what it imports and
compiles is that commit's and that toolchain's; it knows neither plan nor store. What a case does wrong is a result;
only what is wrong with the machine ends it. Cases may print: their standard output goes to standard error.

``python -m gpusim.watch.cell_worker`` (protocol :data:`PROTOCOL`, said in its first line).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from gpusim import __version__, gpus
from gpusim.cases.names import is_reference
from gpusim.cases.native_names import split_native
from gpusim.cases.requests import parse_request
from gpusim.cases.source import launch_records, open_source
from gpusim.cases.source import least_cycles as bounds_of
from gpusim.engine.gpu import simulate
from gpusim.errors import GpusimError
from gpusim.frontend.toolchain_versions import installed, toolchain
from gpusim.gpus.load import load_gpu
from gpusim.measure.cuda_driver import CudaDriver
from gpusim.measure.driver import Driver
from gpusim.measure.run import MeasureOptions, MeasureRequest, measure_cases
from gpusim.store.environment import environment, host_hash
from gpusim.store.hashes import gpu_values, model_hash
from gpusim.store.launch import SimulatedLaunch

PROTOCOL = 1
#: What a failure that is no error of ours is called: the case's own code raised it.
RAISED = "raised"
#: Packages that make machine code, beside those of Numba's kernels.
COMPILERS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvcc", "triton")


def main(tasks: Iterable[str], results: TextIO, open_driver: Callable[[], Driver] = CudaDriver) -> None:
    """Answer each line of ``tasks`` by one of ``results``, until there are no more."""
    _write(results, {"protocol": PROTOCOL, "facts": {**method_facts(), "gpus_hash": _hash(_gpu_files())}})
    drivers: list[Driver] = []

    def driver() -> Driver:
        if not drivers:
            drivers.append(open_driver())
        return drivers[0]

    for line in tasks:
        task = json.loads(line)
        _write(results, {"id": task["id"], **answer(task, driver)})


def answer(task: Mapping[str, Any], driver: Callable[[], Driver]) -> dict[str, Any]:
    """The value of the cell of ``task`` (``case``, ``gpu``, ``mode``, ``small``), or why it has none: ``refused``."""
    work = partial(_measured, driver=driver) if task["mode"] == "measured" else _simulated
    try:
        return {**work(task), "facts": _facts(task["case"])}
    except (KeyboardInterrupt, SystemExit) as error:
        kind, said, code = RAISED, type(error).__name__, 3
    except GpusimError as error:
        kind, said, code = type(error).__name__, str(error), error.exit_code
    except Exception as error:  # the case is the user's code of any commit
        kind, said, code = RAISED, f"{type(error).__name__}: {error}", 3
    return {
        "refused": {"kind": kind, "message": " ".join(said.split()), "exit_code": code},
        "facts": _facts(task["case"]),
    }


def _simulated(task: Mapping[str, Any]) -> dict[str, Any]:
    spec = load_gpu(task["gpu"])
    source = open_source(task["case"], spec, small=task["small"])
    traces = [launch.trace for launch in source.timed]
    result = simulate(traces, spec, warm=source.warm)
    bounds = [bounds_of(traces, index, spec, warmed=bool(source.warm)) for index in range(len(traces))]
    records = launch_records(result, source.timed, bounds)
    return {
        "launches": [dataclasses.asdict(_in_checkout(record, Path.cwd())) for record in records],
        "figures": {records[0].gpu_hash: gpu_values(spec)} if records else {},
        "unchecked": source.unchecked,
    }


def _in_checkout(record: SimulatedLaunch, tree: Path) -> SimulatedLaunch:
    """``record`` with source files named as they stand in the commit: its checkout goes when its cells are done."""

    def named(file: str) -> str:
        return str(Path(file).relative_to(tree)) if file and Path(file).is_relative_to(tree) else file

    lines = tuple(dataclasses.replace(each, file=named(each.file)) for each in record.instructions)
    source = tuple((named(file), line, text) for file, line, text in record.source)
    return dataclasses.replace(record, instructions=lines, source=source)


def _measured(task: Mapping[str, Any], driver: Callable[[], Driver]) -> dict[str, Any]:
    name, shape = parse_request(task["case"])
    options = MeasureOptions(budget_seconds=task["budget_s"], gpu=task["gpu"], seed=task["seed"])
    rows = list(measure_cases(driver(), [MeasureRequest(name, shape, small=task["small"])], options))
    return {"rows": [dataclasses.asdict(row) for row in rows]}


def _facts(case: str) -> dict[str, Any]:
    """What identifies the value besides the kernel's own hashes."""
    file = _source_file(case)
    return {**method_facts(), "file": file, "source_hash": _hash([Path(file)]) if file else ""}


def method_facts() -> dict[str, str]:
    """What is known of the method before anything is run: versions and hashes of this gpusim, its compilers and this
    machine."""
    return {
        "gpusim_version": __version__,
        "model_hash": model_hash(),
        "compiler": ", ".join(filter(None, (toolchain(), *installed(COMPILERS)))),
        "host_hash": host_hash(),
        "python": environment()["python"],
    }


def _gpu_files() -> list[Path]:
    return sorted(Path(gpus.__file__).parent.glob("*.toml"))


def _source_file(case: str) -> str:
    """The file of the checkout in which the case stands, as it is written; empty for an entry of the suite."""
    try:
        name, _ = parse_request(case)
    except GpusimError:
        return ""
    native = split_native(name)
    if native is not None:
        return native[0]
    return name.rpartition(":")[0] if is_reference(name) else ""


def _hash(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    try:
        for file in files:
            digest.update(file.read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()


def _write(results: TextIO, value: Mapping[str, Any]) -> None:
    results.write(json.dumps(value, allow_nan=False) + "\n")
    results.flush()


def _tasks(lines: TextIO) -> Iterator[str]:
    """The lines of the parent as they come; when it has gone, so has this process, whatever it is at."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in lines:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=read, name="tasks", daemon=True).start()
    while True:
        yield waiting.get()


if __name__ == "__main__":
    # Results have a descriptor of their own, which nothing that a case prints reaches.
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(_tasks(sys.stdin), own)
