"""The account of a run: every launch with its shape, what it executed, and what became of its trace.

Mental model: a launch's trace passes by chunk by chunk and is counted, written to a file, or fed to the
simulator, never kept. Launches that follow each other and do not differ in anything shown share a row.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpusim.emulator.emulation import Emulation
from gpusim.emulator.listeners import Listener
from gpusim.errors import UsageError
from gpusim.trace import file
from gpusim.trace.record import Chunk, Launch, Trace

INDEX = "index.json"
#: Seconds of silence after which a launch that is still running says so, and between two such lines.
PROGRESS_SECONDS = 2.0
_TRACE_PATTERN = "[0-9]*.trace"
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]+")

Say = Callable[[str], None]


class Clock(Protocol):
    """Predicts what launches cost, one after another on one machine."""

    def launch(self, trace: Trace) -> tuple[int, float]:
        """(cycles, microseconds) of a launch."""


@dataclass
class Row:
    """``first``: number of the first launch that the row stands for, ``count`` how many it stands for;
    ``cycles`` and ``time_us`` of each of them, None where nothing was simulated."""

    first: int
    count: int
    facts: dict[str, Any]
    seconds: float
    cycles: int | None = None
    time_us: float | None = None

    def record(self) -> dict[str, Any]:
        """The row as data to print."""
        found = {"launch": self.first, **self.facts, "launches": self.count, "host_ms": round(1e3 * self.seconds, 3)}
        if self.cycles is not None:
            found.update(cycles=self.cycles, time_us=self.time_us)
        return found


class Ledger:
    """Where launches run. ``folder``: keep each trace there; ``clock``: predict each launch's cycles;
    ``say``: progress of launches that take long."""

    def __init__(self, folder: Path | None = None, clock: Clock | None = None, say: Say = lambda line: None):
        self.rows: list[Row] = []
        self.launches = 0
        #: device memory that the program has not freed (:func:`gpusim.driver.leaks.leaks_of`), where that was asked for
        self.leaks: list[dict[str, Any]] = []
        self._folder, self._clock, self.say = folder, clock, say
        self._files: list[dict[str, Any]] = []
        self._last_code = ""

    @property
    def wants_lines(self) -> bool:
        """Whether traces should know their source lines."""
        return self._folder is not None

    def run(self, emulation: Emulation) -> None:
        """Run a launch to its end; raises what the emulation raises."""
        self.launches += 1
        number, facts, started = self.launches, emulation.facts, time.perf_counter()
        count = _Counter(facts, number, self.say)
        chunks = emulation.run([count])
        trace = Trace(emulation.program, facts, chunks)
        cycles = time_us = None
        try:
            if self._folder is not None:
                path = self._folder / f"{number:06d}.{_FORBIDDEN.sub('_', facts.kernel)}.trace"
                file.write(path, trace.program, facts, chunks)
                self._files.append({"launch": number, "file": path.name, "kernel": facts.kernel})
                trace = Trace.load(path)
            emulated = time.perf_counter()
            if self._clock is not None:
                cycles, time_us = self._clock.launch(trace)
                self._say_if_long(f"launch {number} {facts.kernel}: simulated", emulated)
        finally:
            for _ in chunks:  # memory is final only when every block has run
                pass
        shown = {
            "kernel": facts.kernel,
            "grid": _shape(facts.grid),
            "block": _shape(facts.block),
            "registers": facts.registers_per_thread,
            "shared_bytes": facts.shared_bytes,
            "warp_instructions": count.warp_instructions,
        }
        self._append(Row(number, 1, shown, time.perf_counter() - started, cycles, time_us), facts.cubin_sha256)

    def _append(self, row: Row, code: str) -> None:
        last = self.rows[-1] if self.rows else None
        if last and (last.facts, last.cycles, self._last_code) == (row.facts, row.cycles, code):
            last.count += 1
            last.seconds += row.seconds
        else:
            self.rows.append(row)
        self._last_code = code

    def _say_if_long(self, what: str, since: float) -> None:
        seconds = time.perf_counter() - since
        if seconds > PROGRESS_SECONDS:
            self.say(f"{what} in {seconds:.1f} s")

    def records(self) -> list[dict[str, Any]]:
        """One dict a row, in launch order."""
        return [row.record() for row in self.rows]

    def close(self, gpu: str) -> None:
        """Write the index of the kept traces."""
        if self._folder is not None:
            text = json.dumps({"gpu": gpu, "traces": self._files, "launches": self.records()}, indent=2)
            with file.replacing(self._folder / INDEX) as stream:
                stream.write(text.encode() + b"\n")


class _Counter(Listener):
    """Counts what a launch executes, and says how far one is that takes long."""

    def __init__(self, facts: Launch, number: int, say: Say):
        self._facts, self._number, self._say = facts, number, say
        self._next_line = time.perf_counter() + PROGRESS_SECONDS
        self.warp_instructions = 0

    def chunk_closed(self, chunk: Chunk) -> None:
        self.warp_instructions += chunk.warp_instructions
        done = chunk.first_block + chunk.blocks
        if done < self._facts.blocks and time.perf_counter() >= self._next_line:
            self._say(f"launch {self._number} {self._facts.kernel}: {done} of {self._facts.blocks} blocks")
            self._next_line = time.perf_counter() + PROGRESS_SECONDS


def open_folder(path: Path, force: bool) -> Path:
    """Make or check the folder of a recording; raises UsageError for one with something in it."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"--record {path}: it is a file, give a folder")
    if path.is_dir() and any(path.iterdir()):
        if not force:
            raise UsageError(
                f"--record {path}: the folder is not empty; give another one, or --force to replace its traces"
            )
        for old in (*path.glob(_TRACE_PATTERN), path / INDEX):
            old.unlink(missing_ok=True)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _shape(sizes: tuple[int, int, int]) -> str:
    """``(391, 1, 1)`` as ``391``, ``(8, 4, 1)`` as ``8x4``."""
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes = sizes[:-1]
    return "x".join(str(size) for size in sizes)
