"""Which of several variants of a kernel a launch takes: the one of fewest predicted cycles on its GPU.

Mental model: an autotuner runs each configuration and keeps the fastest. Here each is captured and simulated on the GPU
asked for, from cold caches as Triton's own benchmark does, on arrays that are put back afterwards. What was chosen is
kept by what the kernel's language says it depends on, so that the next launch like it does not choose again, and is
told in a line on stderr.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from gpusim.errors import CompileError, GpusimError, LaunchError, UnsupportedOpcodeError, UsageError
from gpusim.frontend.protocol import Choice
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import say, task
from gpusim.isa.target import Target
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import Trace

#: Why a variant is left out rather than an error: the GPU refuses it, or it cannot be emulated.
_LEFT_OUT = (LaunchError, CompileError, UnsupportedOpcodeError)
#: What is looked at and kept at a time of a memory's content.
_PIECE_BYTES = 1 << 20
_chosen: dict[tuple[Hashable, str, Any], str] = {}


def choose(
    choice: Choice,
    gpu: str | GpuSpec | tuple[int, int],
    target: Target,
    grid: Any,
    run: Callable[[Any], Trace],
) -> Any:
    """The variant of ``choice`` that takes fewest cycles on ``gpu``. ``run`` captures one and leaves no trace of
    it in the arrays. Raises the first variant's error where none can run."""
    specs = _timed_on(gpu, target)
    key = choice.key, specs[0].name, grid if isinstance(grid, (int, tuple)) else None
    if key not in _chosen:
        if len(specs) > 1:
            others = ", ".join(each.name for each in specs[1:])
            say(
                f"autotuning {choice.name} for {target.name} on {specs[0].name}; it may choose otherwise on {others}: name a GPU"
            )
        _chosen[key] = _fastest(choice, specs[0], run)
    return choice.variants[_chosen[key]]


def _fastest(choice: Choice, spec: GpuSpec, run: Callable[[Any], Trace]) -> str:
    simulate = importlib.import_module(
        "gpusim.engine.gpu"
    ).simulate  # a capture that has nothing to choose needs no engine
    cycles: dict[str, int] = {}
    left_out: dict[str, GpusimError] = {}
    with task(f"autotuning {choice.name}", len(choice.variants), "configurations") as shown:
        for number, (each, variant) in enumerate(choice.variants.items()):
            shown.to(number, each)
            try:
                cycles[each] = simulate(run(variant), gpu=spec).cycles
            except _LEFT_OUT as error:
                left_out[each] = error
        shown.to(len(choice.variants))
    if not cycles:
        raise next(iter(left_out.values()))
    best = min(cycles, key=lambda each: cycles[each])
    say(f"autotuned {choice.name} on {spec.name}: {best}, of {len(choice.variants)} configurations")
    for each in sorted(cycles, key=lambda each: cycles[each]):
        say(f"  {cycles[each]:>12,} cycles  {each}")
    for each, error in left_out.items():
        say(f"  {'left out':>12}         {each}: {error}")
    return best


def _timed_on(gpu: str | GpuSpec | tuple[int, int], target: Target) -> list[GpuSpec]:
    """The GPU itself, or for a bare architecture all described GPUs that have it, in the order of their names."""
    if isinstance(gpu, GpuSpec):
        return [gpu]
    if target.gpu:
        return [load_gpu(target.gpu)]
    found = [spec for spec in map(load_gpu, list_gpus()) if tuple(spec.capability) == target.capability]
    if not found:
        raise UsageError(
            f"no described GPU is a {target.name}, on which to compare configurations: name a GPU, or a configuration"
        )
    return found


@contextmanager
def kept_content(memory: DeviceMemory) -> Iterator[None]:
    """Put back, at the end, all that lies in ``memory`` as it was when this was entered.

    Piece by piece: pages of zeros that nobody wrote, of which large arrays often consist, are neither kept nor made by
    putting them back.
    """
    places = [
        (each.host + at, min(_PIECE_BYTES, each.size - at))
        for each in memory.sorted()
        for at in range(0, each.size, _PIECE_BYTES)
    ]
    zeros = bytes(max((size for _, size in places), default=0))
    before = []
    for host, size in places:
        content = ctypes.string_at(host, size)
        before.append(None if content == zeros[:size] else content)
    try:
        yield
    finally:
        for (host, size), content in zip(places, before, strict=True):
            content = zeros[:size] if content is None else content
            if ctypes.string_at(host, size) != content:
                ctypes.memmove(host, content, size)
