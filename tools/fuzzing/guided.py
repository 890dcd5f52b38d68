"""The same search led by the code that inputs reach: libFuzzer through atheris (Google's, for CPython), where it is
installed.

Mental model: atheris writes counters into the bytecode of the readers' functions, libFuzzer keeps an input that moves a
counter as no other has, and the mutations are this package's own (a tenth of the time libFuzzer's). What Numba compiles
carries no counters.

Ends its process when done, as libFuzzer does.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FunctionType
from typing import Any

#: Readers.
INSTRUMENTED = (
    "tomllib._parser", "gpusim.cases.native_names", "gpusim.cases.native_shapes", "gpusim.cases.numbers", "gpusim.cases.suite", "gpusim.compare.baseline", "gpusim.compare.known_error", "gpusim.explore.choose",
    "gpusim.explore.coverage", "gpusim.explore.examples", "gpusim.explore.finding", "gpusim.frontend.native.entry_names", "gpusim.frontend.native.file_images",
    "gpusim.frontend.native.images", "gpusim.frontend.native.machine_code", "gpusim.frontend.native.ptx_text", "gpusim.gpus.consistency", "gpusim.gpus.load",
    "gpusim.gpus.override", "gpusim.io.document", "gpusim.io.records", "gpusim.isa.binary.cubin", "gpusim.isa.binary.cubin_tables",
    "gpusim.isa.binary.decode", "gpusim.isa.binary.disassembler", "gpusim.isa.binary.kernel_texts", "gpusim.isa.binary.listing", "gpusim.isa.binary.device_code", "gpusim.isa.binary.elf", "gpusim.isa.binary.fatbin",
    "gpusim.isa.binary.lines", "gpusim.isa.binary.unpack", "gpusim.isa.survey", "gpusim.measure.builds", "gpusim.measure.session",
    "gpusim.regress.result_file", "gpusim.report.saved", "gpusim.silicon.estimate", "gpusim.silicon.imports.formats",
    "gpusim.silicon.imports.ncu_csv", "gpusim.silicon.imports.numbers", "gpusim.silicon.imports.nvbench",
    "gpusim.silicon.imports.cutlass_profiler", "gpusim.silicon.imports.kernel_tuner",
    "gpusim.silicon.imports.plain_csv", "gpusim.silicon.imports.profile", "gpusim.silicon.imports.row_lines",
    "gpusim.silicon.published", "gpusim.silicon.recorded", "gpusim.silicon.row", "gpusim.silicon.rows", "gpusim.store.coding",
    "gpusim.store.migrations", "gpusim.store.run", "gpusim.trace.coding", "gpusim.trace.file", "gpusim.trace.parts",
    "gpusim.trace.validate",
)  # fmt: skip
#: Of ten inputs, how many libFuzzer mutates itself.
_OF_LIBFUZZER = 1
MOST_BYTES = 1 << 18


def instrument() -> bool:
    """Import the readers and put counters into their functions; False where atheris is not installed."""
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        return False
    for name in INSTRUMENTED:
        module = importlib.import_module(name)
        for owner in (module, *(each for each in vars(module).values() if isinstance(each, type))):
            for each in list(vars(owner).values()):
                function = getattr(each, "__func__", each)  # of a class method or a static one
                if isinstance(function, FunctionType) and function.__module__ == name:
                    atheris.instrument_func(function)
    return True


def run_guided(
    target: Any,
    seed: int,
    most_inputs: float,
    most_seconds: float,
    watch: Callable[[bytes, int], None],
    found: Callable,
) -> None:
    """As :func:`fuzzing.engine.run`; does not return. Call :func:`instrument` first."""
    atheris = importlib.import_module("atheris")
    from fuzzing.engine import Report, reader  # after instrument()

    report, seeds = Report(), target.seeds()
    with tempfile.TemporaryDirectory(prefix="gpusim-fuzz-") as folder, reader(target, alarm=True) as read:
        for i, data in enumerate(seeds):
            (Path(folder) / f"seed-{i}").write_bytes(data)

        def test_one(data: bytes) -> None:
            watch(data, report.inputs)
            outcome = read(data)
            known = len(report.faults)
            report.add(data, outcome)
            if len(report.faults) > known:
                found(outcome.fault, data, outcome)

        def mutate(data: bytes, most: int, number: int) -> bytes:
            rng = Random(number)
            if rng.randrange(10) < _OF_LIBFUZZER:
                return atheris.Mutate(data, most)
            try:
                return target.mutate(data or rng.choice(seeds), rng, seeds)[:most]
            except BaseException:  # atheris would wait for its time limit
                traceback.print_exc()
                os._exit(1)

        limits = [f"-runs={int(most_inputs)}"] if most_inputs != float("inf") else []
        limits += [f"-max_total_time={max(1, int(most_seconds))}"] if most_seconds != float("inf") else []
        options = [
            f"-seed={seed & 0x7FFFFFFF or 1}",
            f"-max_len={MOST_BYTES}",
            "-rss_limit_mb=0",
            "-timeout=1200",
            "-verbosity=0",
        ]
        atheris.Setup([sys.argv[0], folder, *options, *limits], test_one, custom_mutator=mutate)
        atheris.Fuzz()
