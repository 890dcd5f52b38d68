"""The public entry of capture: run a kernel's machine code on the CPU and record what it did.

Mental model: :func:`capture` is a kernel launch. The front end that accepts the kernel gives the machine code that a
GPU would load and the bytes of the parameters; what a GPU would refuse is refused; every block runs in the emulator
with the arrays written in place, and whoever was asked to listens (the checks, the progress). A launch that fails
raises one error and leaves the arrays untouched.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from gpusim.capture_arrays import CaptureArrays
from gpusim.emulator.emulation import Emulation
from gpusim.emulator.listeners import Listener
from gpusim.emulator.prepare import prepare
from gpusim.emulator.sampled import dependence, moves_data, regular_blocks
from gpusim.errors import LaunchError, UsageError
from gpusim.frontend.protocol import FrontEnd
from gpusim.frontend.registry import choice_of, front_end_of, grid_arguments
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import Task, task
from gpusim.isa.target import Target, make_target
from gpusim.launch.binary import KernelBinary
from gpusim.launch.instruction_limit import DEFAULT_INSTRUCTION_LIMIT
from gpusim.launch.kernel_launch import Grid, KernelLaunch, Sides, make_launch
from gpusim.launch.memory import DeviceMemory
from gpusim.sanitizer.asynccheck import AsyncCheck, WrittenValues
from gpusim.sanitizer.checks import parse_checks
from gpusim.sanitizer.leakcheck import LeakCheck
from gpusim.sanitizer.memcheck import MemoryCheck
from gpusim.sanitizer.ordercheck import OrderCheck, needs_clocks
from gpusim.sanitizer.synccheck import SyncCheck
from gpusim.trace.record import Chunk, Launch, Trace
from gpusim.trace.regular import IrregularError, blocks_to_run
from gpusim.tuning import choose, kept_content

#: Told how far a launch is: kernel, blocks done, blocks in all, warp instructions so far.
Progress = Callable[[str, int, int, int], None]
#: What the reason begins with why all blocks are run of a launch that may depend on data.
_DEPENDENT = "dependent: "
#: What ptxas lets a kernel declare ("uses too much shared data (0x13880 bytes, 0xc000 max)"), for every architecture.
STATIC_SHARED_BYTES = 48 << 10
Check = MemoryCheck | OrderCheck | SyncCheck | LeakCheck | AsyncCheck


def capture(
    kernel: Any,
    grid: int | tuple[int, ...] | Callable[[Mapping[str, Any]], int | tuple[int, ...]] | None,
    block: int | tuple[int, ...] | None,
    args: tuple,
    *,
    gpu: str | GpuSpec | tuple[int, int] = "h200",
    shared_bytes: int = 0,
    memory: DeviceMemory | None = None,
    instruction_limit: int | None = None,
    to: str | os.PathLike[str] | None = None,
    check: Iterable[str] = (),
    progress: Progress | None = None,
    sample: bool = False,
    cluster: int | tuple[int, ...] | None = None,
) -> Trace:
    """Launch ``kernel[grid, block](*args)`` on the emulator and return its trace.

    ``kernel`` is whatever an installed front end takes (:mod:`gpusim.frontend.protocol`), first of all a
    ``@numba.cuda.jit`` function; ``args`` are typed as its launch types them, and arrays are written in place.
    ``block`` None is the block that the kernel was compiled for, where its language fixes one; ``grid`` may then be a
    function of the compile-time parameters (of a Triton kernel of all its parameters), or None where the language's own
    host code says it (CuTe DSL). An autotuned kernel runs in the configuration that takes fewest cycles on ``gpu``.
    ``gpu`` is a GPU's name or spec, a capability ``(9, 0)`` or ``"sm_90"``. ``shared_bytes`` is dynamic shared memory.
    ``cluster``: blocks of a thread-block cluster along x, y, z, where the kernel was not compiled for some
    (``__cluster_dims__``). ``memory`` keeps arrays at their device addresses over several captures.
    ``instruction_limit`` bounds the executed warp instructions. ``to`` is a trace file to write while the launch runs,
    in bounded memory; the returned trace then reads from it. Without it the trace stays in memory, coded once it is
    large. ``check``: any of "memory", "race", "sync", "leak" and "async" (:mod:`gpusim.sanitizer.findings`); what they
    find is the trace's ``findings``, and an invalid access or a barrier at which threads are missing then ends threads,
    whose paths end there in the trace, rather than the launch. ``progress`` is told now and then (kernel, blocks done,
    blocks in all, warp instructions so far).
    ``sample``: run only a few blocks where all others follow from them (:mod:`gpusim.emulator.sampled`); arrays are
    then as before, for the result is not computed, and the trace's ``regular`` says which blocks were run. Where they
    do not follow all run, and the trace's ``why_whole`` says why; if at least nothing that they do depends on data,
    without bulk copies and products of warp groups (``without_data``), and arrays are as before, too.

    Raises UsageError, CompileError, ToolchainError, UnsupportedOpcodeError, LaunchError, AddressError,
    DeadlockError, InstructionLimitError, and OSError where ``to`` cannot be written; the arrays are then as
    before the call, and so is a file at ``to``. A kernel built with ``debug=True`` raises what a thread of it
    has raised, as Numba does after a launch.
    """
    checks = parse_checks(check)
    if sample and checks:
        raise UsageError("a check looks at every block: capture with sample or with check, not with both")
    if not isinstance(args, (tuple, list)):
        raise UsageError(f"args must be a tuple of the kernel's arguments, not {type(args).__name__}")
    limit = DEFAULT_INSTRUCTION_LIMIT if instruction_limit is None else int(instruction_limit)
    if limit < 1:
        raise UsageError(f"instruction_limit must be positive, not {limit}")
    kernel = chosen(
        kernel, grid, block, args, gpu=gpu, shared_bytes=shared_bytes, memory=memory, instruction_limit=limit,
        cluster=cluster,
    )  # fmt: skip
    args, target, why = tuple(args), make_target(gpu), ""
    if sample:
        few = _capture_few(kernel, grid, block, args, target, shared_bytes, cluster, memory, limit, to)
        if isinstance(few, Trace):
            return few
        why = few
    bare = bool(why) and not why.startswith(_DEPENDENT) and moves_data(_binary(kernel, args, target))
    trace = _capture(
        kernel, grid, block, args, target, shared_bytes, cluster, memory, limit, to, checks, progress, undo=bare,
        without_data=bare,
    )  # fmt: skip
    return replace(trace, why_whole=why, without_data=bare) if why else trace


def _binary(kernel: Any, args: tuple, target: Target) -> KernelBinary:
    return front_end_of(kernel).compile(kernel, args, target.capability)


def dependence_of(kernel: Any, args: Iterable[Any], gpu: str | GpuSpec | tuple[int, int]) -> str:
    """How what a block of a launch does may depend on what others, or earlier launches, wrote to memory; empty: it
    cannot."""
    args = tuple(args)
    return dependence(front_end_of(kernel).compile(kernel, args, make_target(gpu).capability))


def _capture_few(
    kernel: Any,
    grid: Grid | None,
    block: Any,
    args: tuple,
    target: Target,
    shared_bytes: int,
    cluster: Sides | None,
    memory: DeviceMemory | None,
    limit: int,
    to: str | os.PathLike[str] | None,
) -> Trace | str:
    """The trace of a launch of which a few blocks were run, with the arrays as before; or why all have to run."""
    front_end = front_end_of(kernel)
    binary = front_end.compile(kernel, args, target.capability)
    prepare(binary)
    if why := dependence(binary):
        return f"{_DEPENDENT}{why}"
    named = grid_arguments(kernel, binary, args) if callable(grid) else None
    launch = make_launch(binary, target, grid, block, shared_bytes, named, cluster)
    _refuse_unlaunchable(launch)
    if launch.cluster_blocks > 1:
        return "its blocks run in clusters, and none of them runs alone"
    device = DeviceMemory() if memory is None else memory
    arrays = CaptureArrays(device, private=memory is None, kernel=binary.name, blocks=math.prod(launch.grid))
    try:
        parameters = front_end.pack(kernel, binary, args, arrays)
        with kept_content(device):
            emulation = Emulation(replace(launch, parameters=parameters), device, limit, without_data=True)
            facts = emulation.facts
            try:
                what = f"capturing {facts.kernel}, a few blocks for all {facts.blocks:,}"
                with task(what, blocks_to_run(facts.grid, by_edge=False), "blocks") as shown:

                    def ran(blocks: int) -> None:
                        if blocks > shown.total:  # one class is not enough
                            shown.total = max(blocks, blocks_to_run(facts.grid, by_edge=True))
                        shown.to(blocks)

                    found = Trace.of_regular(emulation.program, facts, regular_blocks(emulation, ran))
            except IrregularError as irregular:
                return str(irregular)
            finally:
                emulation.close()
    finally:
        arrays.fail()
    if to is None:
        return found
    found.save(to)
    return Trace.load(to)


def _refuse_unlaunchable(launch: KernelLaunch) -> None:
    """Raise LaunchError for what a kernel's own compilation rules out on every GPU: more threads than its launch bounds
    allow, which the driver refuses, and more static shared memory than ptxas takes (NVJitLink assembles it)."""
    name, image, (x, y, z) = launch.binary.name, launch.image, launch.block
    if 0 < image.max_threads < x * y * z:
        raise LaunchError(
            f"{name}: a block of {x * y * z} threads, its launch bounds allow {image.max_threads}: launch smaller blocks, or"
            " raise __launch_bounds__ (.maxntid)"
        )
    if image.shared_bytes > STATIC_SHARED_BYTES:
        raise LaunchError(
            f"{name}: {image.shared_bytes} bytes of static shared memory, a kernel may declare {STATIC_SHARED_BYTES}: make"
            " it dynamic (extern __shared__; in Numba an array of length 0) and give its bytes with the launch"
        )


def chosen(
    kernel: Any,
    grid: Any,
    block: Any,
    args: Iterable[Any],
    *,
    gpu: str | GpuSpec | tuple[int, int],
    shared_bytes: int = 0,
    memory: DeviceMemory | None = None,
    instruction_limit: int = DEFAULT_INSTRUCTION_LIMIT,
    cluster: Sides | None = None,
) -> Any:
    """The kernel that a launch runs: ``kernel``, or of an autotuned one the variant that is fastest on ``gpu``
    (:mod:`gpusim.tuning`). Arguments as for :func:`capture`; arrays are left as they are."""
    args = tuple(args)
    choice = choice_of(kernel, args)
    if choice is None:
        return kernel
    target = make_target(gpu)

    def run(variant: Any) -> Trace:
        return _capture(variant, grid, block, args, target, shared_bytes, cluster, memory, instruction_limit, undo=True)

    return choose(choice, gpu, target, grid, run)


def _capture(
    kernel: Any,
    grid: Grid | None,
    block: Any,
    args: tuple,
    target: Target,
    shared_bytes: int,
    cluster: Sides | None,
    memory: DeviceMemory | None,
    limit: int,
    to: str | os.PathLike[str] | None = None,
    checks: frozenset[str] = frozenset(),
    progress: Progress | None = None,
    undo: bool = False,
    without_data: bool = False,
) -> Trace:
    """:func:`capture` of one kernel that has been chosen; ``undo``: the arrays are afterwards as before.
    ``without_data``: as :class:`gpusim.emulator.emulation.Emulation` takes it."""
    front_end = front_end_of(kernel)
    binary = front_end.compile(kernel, args, target.capability)
    prepare(binary)  # an instruction that is not emulated is refused before anything else is looked at
    if binary.image.launched:
        raise LaunchError(
            f"{binary.name} launches {', '.join(binary.image.launched.values())} from the device: a capture is of one kernel;"
            " gpusim run makes such launches for a program"
        )
    named = grid_arguments(kernel, binary, args) if callable(grid) else None
    launch = make_launch(binary, target, grid, block, shared_bytes, named, cluster)
    _refuse_unlaunchable(launch)
    device = DeviceMemory() if memory is None else memory
    arrays = CaptureArrays(device, private=memory is None, kernel=binary.name, blocks=math.prod(launch.grid))
    try:
        parameters = front_end.pack(kernel, binary, args, arrays)
        with kept_content(device) if undo else nullcontext():
            trace, watching = _emulate(
                front_end,
                binary,
                Emulation(replace(launch, parameters=parameters), device, limit, without_data=without_data),
                to,
                checks,
                progress,
            )
            arrays.check_kept()
    except BaseException:
        arrays.fail()
        raise
    arrays.fail() if undo else arrays.succeed()
    if not watching:
        return trace
    return replace(trace, findings=tuple(found for each in watching for found in each.findings()))


def _emulate(
    front_end: FrontEnd,
    binary: KernelBinary,
    emulation: Emulation,
    to: str | os.PathLike[str] | None,
    checks: frozenset[str],
    progress: Progress | None,
) -> tuple[Trace, list[Check]]:
    """The trace of an emulation that is then closed, and the checks that watched it."""
    try:
        watching = checks_of(emulation, checks)
        with task(f"capturing {emulation.facts.kernel}", emulation.facts.blocks, "blocks") as shown:
            listeners = (*watching, _Progress(emulation.facts, shown, progress))

            def chunks() -> Iterator[Chunk]:
                yield from emulation.run(listeners)
                front_end.raise_pending(binary, emulation.module_globals)

            if to is None:
                return Trace.collect(emulation.program, emulation.facts, chunks()), watching
            Trace(emulation.program, emulation.facts, chunks()).save(to)
            return Trace.load(to), watching
    finally:
        emulation.close()


def checks_of(emulation: Emulation, checks: frozenset[str]) -> list[Check]:
    """The listeners that ``checks`` ask for. Raises UsageError for a kernel that one of them cannot follow."""
    program, facts = emulation.program, emulation.facts
    watching: list[Check] = []
    if "memory" in checks:
        watching.append(MemoryCheck(program, facts, emulation.memory))
    clocks = checks & {"memory", "race"} if needs_clocks(program, checks) else frozenset()
    if "memory" in checks or (checks & {"race"}) - clocks:
        base, matrix = emulation.prepared.image.shared_base, emulation.prepared.encoded.matrix
        if "race" in checks and not clocks:
            values = WrittenValues(program, facts, base, matrix)
            watching += [values, OrderCheck(program, facts, base, checks, True, values.differ)]
        else:
            watching.append(OrderCheck(program, facts, base, checks, not clocks))
    if "sync" in checks:
        watching.append(SyncCheck(program, facts, emulation.prepared.encoded.matrix))
    if "async" in checks or clocks:
        watching.append(
            AsyncCheck(
                program,
                facts,
                emulation.prepared.image.shared_base,
                emulation.prepared.encoded.matrix,
                emulation.prepared.instructions,
                clocks | checks & {"async"},
            )
        )
    if "leak" in checks:
        watching.append(LeakCheck(program, facts))
    return watching


class _Progress(Listener):
    """Tells after each chunk how far the launch is: the command that shows it, and whoever asked to be told."""

    def __init__(self, facts: Launch, shown: Task, progress: Progress | None):
        self._facts, self._shown, self._progress = facts, shown, progress
        self._instructions = 0

    def emulating(self, blocks: int, warp_instructions: int) -> None:
        self._shown.to(blocks)

    def chunk_closed(self, chunk: Chunk) -> None:
        self._instructions += chunk.warp_instructions
        done = min(self._facts.blocks, chunk.first_block + chunk.blocks)
        self._shown.to(done)
        if self._progress is not None:
            self._progress(self._facts.kernel, done, self._facts.blocks, self._instructions)
