"""The account of a run: every launch with its shape, what it executed, and what became of its trace.

Mental model: a launch's trace passes by chunk by chunk and is counted, written to a file, checked, or fed to the
simulator, and is kept only where it is to be explained. Launches that follow each other and do not differ in anything
shown share a row. Launches that were not asked for are emulated for their results alone.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpusim.capturing import Check, checks_of
from gpusim.driver.columns import same_columns
from gpusim.driver.executor import Executor, Stopped
from gpusim.driver.reach import Reach
from gpusim.driver.recording import INDEX
from gpusim.driver.repeats import Repeats
from gpusim.driver.timing import SimulatedClock, Timing
from gpusim.driver.wanted import Wanted
from gpusim.emulator.emulation import Emulation
from gpusim.emulator.host_calls import Heap
from gpusim.emulator.listeners import Listener
from gpusim.engine.chain import lets_dependents_go
from gpusim.engine.chain_supply import MOST_BYTES, MOST_GRIDS, trace_bytes
from gpusim.errors import GpusimError
from gpusim.launch.memory import DeviceMemory
from gpusim.sanitizer.dependents import DependentCheck, Primary
from gpusim.sanitizer.leakcheck import LeakCheck
from gpusim.trace import file
from gpusim.trace.record import Chunk, Launch, Trace

#: Seconds of silence after which a launch that is still running says so; from then on at intervals that double.
PROGRESS_SECONDS = 2.0
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"\d+")

Say = Callable[[str], None]


@dataclass
class Row:
    """``first``: number of the first launch that the row stands for, ``count`` how many it stands for;
    ``timing`` of each of them, None where it was not simulated; ``findings`` of the checks in each, None without
    checks."""

    first: int
    count: int
    facts: dict[str, Any]
    seconds: float
    timing: Timing | None = None
    findings: int | None = None

    def same(self, other: Row) -> bool:
        """Whether nothing that is shown differs."""
        return (self.facts, self.timing, self.findings) == (other.facts, other.timing, other.findings)

    def record(self, wanted: Wanted) -> dict[str, Any]:
        """The row as data to print; what was asked for but not of this launch is None."""
        found = {"launch": self.first, **self.facts, "launches": self.count, "host_ms": round(1e3 * self.seconds, 3)}
        if wanted.simulate:
            found["cycles"] = self.timing and self.timing.cycles
            for name in ("time_us", "time_us_low", "time_us_high"):
                found[name] = self.timing and getattr(self.timing, name)
            if self.timing and self.timing.overlap_cycles is not None:
                found["overlap_cycles"] = self.timing.overlap_cycles
            if "device" in self.facts:
                found["link_bytes"] = self.timing and self.timing.link_bytes
            if wanted.sample:
                found["error_percent"] = self.timing and self.timing.error_percent
        if wanted.checks:
            found["findings"] = self.findings
        return found


@dataclass(frozen=True)
class _Held:
    """A launch that has been emulated, and is simulated with those that depend on it programmatically; ``finish`` takes
    its timing."""

    number: int
    trace: Trace
    finish: Callable[[Timing | None], None]
    device: int


@dataclass(frozen=True)
class KeptLaunch:
    """A launch to be explained, and the one before it, whose data it found in the caches (None: it found none)."""

    number: int
    trace: Trace
    before: Trace | None


class Ledger:
    """Where launches run. ``wanted``: what is to be done with which; ``folder``: keep their traces there; ``clock``:
    predicts their cycles, None where they are not simulated; ``say``: progress of launches that take long."""

    def __init__(
        self,
        wanted: Wanted | None = None,
        folder: Path | None = None,
        clock: SimulatedClock | None = None,
        say: Say = lambda line: None,
    ):
        self.wanted, self.say = wanted or Wanted(), say
        self.rows: list[Row] = []
        #: device memory that the program has not freed (:func:`gpusim.driver.leaks.leaks_of`), where that was asked for
        self.leaks: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self.kept: list[KeptLaunch] = []
        #: launches that have begun, that failed, and that were refused before they began
        self.launches = self.failed = self.refused = 0
        #: of a device as the program numbers it, the number in the node, which the account tells; None where there is
        #: but one
        self.number_of: Callable[[int], int] | None = None
        #: called with each launch's record when it has ended, in a program that is not this process
        self.told: Callable[[str, dict[str, Any]], None] = lambda kind, record: None
        #: called with why a driver function refuses, where nobody else can tell the user
        self.refusal: Callable[[str], None] = lambda sentence: None
        #: called with each function of the driver that has succeeded, and its arguments, where somebody follows the
        #: program's calls
        self.called: Callable[[str, tuple], None] | None = None
        self.executor: Executor | None = None
        self._folder, self._clock = folder, clock
        self._files: list[dict[str, Any]] = []
        self._last_code = ""
        self._last_trace: Trace | None = None
        self._explained: set[tuple] = set()
        self._running: _Counter | None = None
        self._heap_checks: list[tuple[int, LeakCheck, Heap]] = []
        self._held: list[_Held] = []
        self._device = 0  # that the launch under way runs on
        self._held_bytes = 0
        self._last_number = 0
        self._said: set[str] = set()

    @property
    def wants_lines(self) -> bool:
        """Whether traces should know their source lines."""
        return self._folder is not None or bool(self.wanted.checks) or self.wanted.explain

    def synchronized(self, device: int) -> None:
        """The program has waited for a device."""
        if self._clock is not None:
            self.settle()
            self._clock.synchronized(device)

    def waits(self, device: int, time_ns: float) -> None:
        """A device waits for something that happens at ``time_ns`` of simulated time."""
        if self._clock is not None:
            self.settle()
            self._clock.waits(device, time_ns)

    def reaches(self, memory: DeviceMemory) -> None:
        """A launch is to run that sees ``memory``: say what of it is not timed as it is."""
        if not isinstance(memory, Reach) or not memory.peers:
            return
        if self._clock is not None and memory.sees_mapped:
            self._say_once(
                "mapped memory (cuMemCreate) of another device is timed as memory of the device whose launch reaches it, not over the link"
            )
        if self.wanted.explain or self._folder is not None:
            self._say_once(
                "traces do not tell whose memory is whose: --why, and a simulation of what --record keeps, take another device's memory for"
                " the own"
            )

    def run(
        self,
        emulation: Emulation,
        repeats: Repeats,
        before: Primary | None = None,
        depends_on: int | None = None,
        device: int = 0,
    ) -> Primary | None:
        """Run a launch on a device to its end; raises what the emulation raises. ``before``: what the launch that it
        depends on programmatically has accessed; returns the same of this one. None where hazards are not looked for.
        ``depends_on``: that launch's number."""
        if self._held and depends_on != self._held[-1].number:
            self.settle()
        self._device = device
        self.launches += 1
        kernel, wanted = emulation.facts.kernel, self.wanted
        self.told("begin", {"launch": self.launches, "kernel": kernel})
        chosen = wanted.takes(kernel)
        if chosen and (wanted.simulate or wanted.checks or wanted.explain or self._folder is not None):
            depends = depends_on is not None and depends_on == self._last_number
            return self._run_traced(emulation, chosen, before, depends)
        self.settle()
        if wanted.simulate and not wanted.cold:  # its data is to be in the caches
            self._run_traced(emulation, chosen)
        else:
            self._run_untraced(emulation, repeats)
        return None

    def _run_untraced(self, emulation: Emulation, repeats: Repeats) -> None:
        """Run a launch for what it leaves in memory, or bring that there if it is known."""
        facts, launch, started = emulation.facts, emulation.launch, time.perf_counter()
        count = self._running = _Counter(facts, self.launches, self.say, self.executor)
        key = launch.binary, facts.grid, facts.block, facts.cluster, facts.shared_bytes, launch.parameters
        allocations = emulation.memory.sorted() if emulation.repeatable else ()
        executed = repeats.begin(key, allocations) if emulation.repeatable else None
        if executed is not None:
            emulation.close()
        else:
            try:
                executed = emulation.run_untraced([count])
            except GpusimError:
                self._fails()
                raise
            if emulation.repeatable:
                repeats.end(key, allocations, time.perf_counter() - started, executed)
        self._ended(facts, executed, time.perf_counter() - started, self._device)

    def _fails(self) -> None:
        self.failed += 1
        self.told("failed", {"launch": self.launches})
        self._running = None

    def _run_traced(
        self, emulation: Emulation, chosen: bool, before: Primary | None = None, depends: bool = False
    ) -> Primary | None:
        """Run a launch with its trace, for all that was asked for. ``depends``: it depends programmatically on the
        launch whose trace was taken before this one."""
        number, facts, started = self.launches, replace(emulation.facts, dependent=depends), time.perf_counter()
        self._last_number = number
        count = self._running = _Counter(facts, number, self.say, self.executor)
        watching: list[Check | DependentCheck] = [*checks_of(emulation, self.wanted.checks)] if chosen else []
        dependents = None
        if chosen and "race" in self.wanted.checks:
            dependents = DependentCheck(emulation.program, facts, before)
            watching += [dependents] if dependents.is_needed else []
        chunks = emulation.run([count, *watching])
        timing = None
        try:
            trace = Trace(emulation.program, facts, chunks)
            if chosen and self._folder is not None:
                path = self._folder / f"{number:06d}.{_FORBIDDEN.sub('_', facts.kernel)}.trace"
                file.write(path, trace.program, facts, chunks)
                self._files.append({"launch": number, "file": path.name, "kernel": facts.kernel})
                trace = Trace.load(path)
            elif chosen and (self.wanted.explain or self.wanted.sample):  # it is read more than once
                trace = Trace.collect(emulation.program, facts, chunks)
            lets_go = self._lets_dependents_go(trace) and chosen
            held = lets_go or bool(self._held)
            if held and isinstance(trace.chunk_list, Iterator):
                trace = Trace.collect(emulation.program, facts, chunks)
            if self._clock is not None and not held:
                timing = self._time(self._clock, trace, f"launch {number} {facts.kernel}", chosen)
            if chosen and self.wanted.explain:
                self._keep(number, trace)
            for _ in chunks:  # memory is final only when every block has run
                pass
        except Stopped:
            raise
        except BaseException as error:
            for _ in chunks:  # the program's memory is to be right, whatever befell its trace
                pass
            if isinstance(error, GpusimError):
                self._fails()
            else:
                self.told("failed", {"launch": number})
                self._running = None
            raise
        leaks = [each for each in watching if isinstance(each, LeakCheck)]
        # A later launch may free what this one has allocated: told at the end of the program.
        self._heap_checks += [(number, each, emulation.heap) for each in leaks if each.findings()]
        found = [finding for each in watching if each not in leaks for finding in each.findings()]
        self.findings += [{"launch": number, "kernel": facts.kernel, **finding.as_record()} for finding in found]
        finish = functools.partial(
            self._finish, number, facts, count.warp_instructions, time.perf_counter() - started,
            self.findings[len(self.findings) - len(found) :], len(found) if self.wanted.checks and chosen else None,
            self._device,
        )  # fmt: skip
        if held:
            self._running = None
            self._held.append(_Held(number, trace, finish, self._device))
            self._held_bytes += trace_bytes(trace)
            if not lets_go:
                self.settle()
            elif len(self._held) == MOST_GRIDS or self._held_bytes > MOST_BYTES:
                self._say_once(
                    f"no more than {MOST_GRIDS} launches with {MOST_BYTES >> 20} MiB of traces overlap at once: what depends programmatically on"
                    f" launch {number}, {facts.kernel}, begins when that has ended"
                )
                self.settle()
        else:
            finish(timing)
        return dependents.primary() if dependents is not None else None

    def _lets_dependents_go(self, trace: Trace) -> bool:
        """Whether launches that depend on this one programmatically may begin before it has ended, in simulated
        time."""
        return self._clock is not None and lets_dependents_go(trace)

    def _say_once(self, sentence: str) -> None:
        """Say what may be true of many launches once for each sort of them."""
        sort = _NUMBER.sub("", sentence)
        if sort not in self._said:
            self._said.add(sort)
            self.say(sentence)

    def settle(self) -> None:
        """Simulate the launches that wait for those that depend on them programmatically: none comes any more."""
        held, self._held, self._held_bytes = self._held, [], 0
        if not held or self._clock is None:
            return
        try:
            timings = self._clock.chain([each.trace for each in held], self._say_once, held[0].device)
        except GpusimError:
            self._fails()
            raise
        for each, timing in zip(held, timings, strict=True):
            each.finish(timing)

    def _finish(
        self,
        number: int,
        facts: Launch,
        warp_instructions: int,
        seconds: float,
        findings: list[dict[str, Any]],
        count: int | None,
        device: int,
        timing: Timing | None,
    ) -> None:
        """Tell of a launch that has ended, and of what was found in it."""
        self._ended(facts, warp_instructions, seconds, device, timing, count, number)
        for finding in findings:
            self.told("finding", {"finding": finding})

    def _ended(
        self,
        facts: Launch,
        warp_instructions: int,
        seconds: float,
        device: int,
        timing: Timing | None = None,
        findings: int | None = None,
        number: int | None = None,
    ) -> None:
        """Write a launch that has come to its end into the account."""
        shown = {
            **({} if self.number_of is None else {"device": self.number_of(device)}),
            "kernel": facts.kernel,
            "grid": _shape(facts.grid),
            "block": _shape(facts.block),
            "registers": facts.registers_per_thread,
            "shared_bytes": facts.shared_bytes,
            "warp_instructions": warp_instructions,
        }
        row = Row(number or self.launches, 1, shown, seconds, timing, findings)
        self._running = None
        self._append(row, facts.cubin_sha256)
        self.told("launch", {**row.record(self.wanted), "code": facts.cubin_sha256})

    def _time(self, clock: SimulatedClock, trace: Trace, what: str, chosen: bool) -> Timing | None:
        """What the launch costs; one that was not asked for only leaves its data in the caches."""
        begun = time.perf_counter()
        timing = None
        if chosen:
            timing = clock.launch(trace, self._device)
        elif not self.wanted.cold:
            clock.pass_by(trace, self._device)
        if (seconds := time.perf_counter() - begun) > PROGRESS_SECONDS:
            self.say(f"{what}: {'simulated' if chosen else 'its data brought into L2'} in {seconds:.1f} s")
        return timing

    def _keep(self, number: int, trace: Trace) -> None:
        """Keep the trace of the first launch of each kernel and shape."""
        facts = trace.launch
        key = facts.cubin_sha256, facts.kernel, facts.grid, facts.block, facts.cluster, facts.shared_bytes
        if key not in self._explained:
            self._explained.add(key)
            self.kept.append(KeptLaunch(number, trace, None if self.wanted.cold else self._last_trace))
        self._last_trace = trace

    def _append(self, row: Row, code: str) -> None:
        last = self.rows[-1] if self.rows else None
        if last and last.same(row) and self._last_code == code:
            last.count += 1
            last.seconds += row.seconds
        else:
            self.rows.append(row)
        self._last_code = code

    def interrupted(self) -> str | None:
        """How far the launch was that has not come to its end, None if all have."""
        return self._running and self._running.standing()

    def records(self) -> list[dict[str, Any]]:
        """One dict a row, in launch order."""
        return same_columns([row.record(self.wanted) for row in self.rows])

    def none_ended(self) -> str:
        """Why there is no row to show."""
        counts = {"failed": self.failed, "refused": self.refused, "interrupted": int(self._running is not None)}
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return f"no launch came to its end ({told})" if told else "the program launched no kernel"

    def find_heap_leaks(self) -> None:
        """The program has come to its end: what its kernels have taken from the device heap and none has freed is a
        finding."""
        for number, check, heap in self._heap_checks:
            for finding in check.findings(heap.holds):
                self.findings.append({"launch": number, "kernel": check.launch.kernel, **finding.as_record()})
                self.told("finding", {"finding": self.findings[-1]})
        self._heap_checks.clear()

    def close(self, gpu: str) -> None:
        """Write the index of the kept traces."""
        if self._folder is not None:
            text = json.dumps({"gpu": gpu, "traces": self._files, "launches": self.records()}, indent=2)
            with file.replacing(self._folder / INDEX) as stream:
                stream.write(text.encode() + b"\n")


def simulated_ns(ledger: Ledger, clock: SimulatedClock, device: int = 0) -> float:
    """Nanoseconds that the launches on a device have taken so far, all of which are simulated for that."""
    ledger.settle()
    return clock.now_ns(device)


class _Counter(Listener):
    """Counts what a launch executes, says how far one is that takes long, and ends one when the run is over."""

    def __init__(self, facts: Launch, number: int, say: Say, executor: Executor | None):
        self._facts, self._number, self._say, self._executor = facts, number, say, executor
        self._begun = time.perf_counter()
        self._next_line = PROGRESS_SECONDS
        self._blocks = self._executed = 0
        self.warp_instructions = 0

    def chunk_closed(self, chunk: Chunk) -> None:
        self.warp_instructions += chunk.warp_instructions

    def emulating(self, blocks: int, warp_instructions: int) -> None:
        if self._executor is not None:
            self._executor.check()
        self._blocks, self._executed = blocks, warp_instructions
        seconds = time.perf_counter() - self._begun
        if seconds >= self._next_line:
            self._next_line = 2 * seconds
            left = f", about {seconds * (self._facts.blocks - blocks) / blocks:.0f} s left" if blocks else ""
            self._say(f"{self._place()}, {seconds:.0f} s{left}")

    def _place(self) -> str:
        return (
            f"launch {self._number} {self._facts.kernel}: {self._blocks:,} of {self._facts.blocks:,} blocks,"
            f" {self._executed / 1e6:,.1f} M warp instructions"
        )

    def standing(self) -> str:
        """How far it was when it was stopped."""
        return f"{self._place()}, interrupted"


def _shape(sizes: tuple[int, ...]) -> str:
    """``(391, 1, 1)`` as ``391``, ``(8, 4, 1)`` as ``8x4``."""
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes = sizes[:-1]
    return "x".join(str(size) for size in sizes)
