"""The property ``resources``: no key of the GPU file, made better, makes a launch slower beyond a stated slack.

Mental model: :func:`gpusim.gpus.limits.better` says of each key which way it is better. Each key that the workload can
feel is made better by a factor, alone, and the same launches are simulated again; the worst excess over the key's slack
is the divergence. A key that would break a rule between keys when it is changed alone says nothing.

Slack is for anomalies that machines have, too. All of them get what :mod:`gpusim.explore.metamorphic` gives to a faster
machine, and more where a launch has several waves (Graham's anomaly). Three more kinds have their own, below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from gpusim.engine.gpu import simulate
from gpusim.errors import LaunchError, SpecError, UsageError
from gpusim.explore.cover import Covered, cover
from gpusim.explore.metamorphic import MACHINE_SLACK, WAVES_SLACK, has_waves, warps_are_slower
from gpusim.explore.own_properties import BY, FACTOR, KEY, RESOURCES
from gpusim.explore.property import Outcome, Property
from gpusim.gpus.limits import Better, better, limits_of
from gpusim.gpus.load import known_keys
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import PIPE_NAMES, GpuSpec, value_of
from gpusim.io.nearest import hint
from gpusim.trace.record import PipeClass, Trace

#: Start of a key -> slack beside the common one. Warps of a sub-core that wait long for code meet at the same line and
#: share it; those that wait less drift apart and ask for lines each for itself: 17 % at most in sweeps of loops of 46
#: to 187 KiB of code, 128 to 1,024 threads and caches of 16 to 256 KiB.
_CODE_SLACK = 0.20
#: Other occupancy is another mix: more warps share the same caches, and more SMs or slices place lines and blocks anew,
#: as another order of blocks does (:data:`gpusim.explore.metamorphic.PLACE_SLACK`).
_OCCUPANCY_SLACK = 0.25
SLACKS: tuple[tuple[str, float], ...] = (
    ("instruction_cache.", _CODE_SLACK),
    ("sm.", _OCCUPANCY_SLACK),
    ("sm_count", _OCCUPANCY_SLACK),
    ("l2.slices", _OCCUPANCY_SLACK),
)


def slack_of(key: str) -> float:
    """Share by which a launch may be slower with ``key`` made better."""
    return MACHINE_SLACK + next((more for start, more in SLACKS if key.startswith(start)), 0.0)


def improved(gpu: GpuSpec, key: str, factor: float) -> GpuSpec | None:
    """``gpu`` with ``key`` better by ``factor``; None where that cannot be: no such way, a limit, a rule between
    keys."""
    which, value = better(key), value_of(gpu, key)
    if which is Better.NEITHER or isinstance(value, (str, tuple)):
        return None
    if isinstance(value, bool):
        changed: Any = which is Better.MORE
    elif isinstance(value, int):
        changed = int(value * factor) if which is Better.MORE else int(value / factor)
    else:
        changed = value * factor if which is Better.MORE else value / factor
    changed = min(changed, limits_of(key).most)
    if changed == value:
        return None
    try:
        return override_gpu(gpu, [f"{key}={str(changed).lower()}"])
    except SpecError:
        return None


class Resources(Property):
    """Every key of the GPU file made better, one at a time; the divergence is the worst excess over a key's slack."""

    name = "resources"
    asks = RESOURCES.asks
    options = RESOURCES.options

    def __init__(self, gpu: GpuSpec, keys: Sequence[str] = (), factor: float = FACTOR) -> None:
        self.gpu, self.keys, self.factor = gpu, tuple(keys), factor

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Self:
        keys, factor = KEY.texts(options), float(options[BY.name])
        for key in keys:
            if key not in known_keys():
                raise UsageError(f"{KEY.flag} {key}: a GPU file has no such key; {hint(key, known_keys())}")
            if better(key) is Better.NEITHER:
                raise UsageError(f"{KEY.flag} {key}: neither more nor less of it is better")
        if not 1.0 < factor <= 1024.0:
            raise UsageError(f"{BY.flag} {factor:g}: give a factor above 1, at most 1024")
        return cls(gpu, keys, factor)

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        before, tried = covered.result.cycles, 0
        worst, detail = 0.0, ""
        more = WAVES_SLACK if has_waves(covered, self.gpu) else 0.0
        for key, machine in self._machines(covered):
            try:
                result = simulate(covered.traces, machine, warm=covered.warm)
            except (LaunchError, SpecError):
                continue  # what a block may have depends on the key, or the model has rules of its own
            tried += 1
            excess = result.cycles / before - 1.0 - slack_of(key) - more
            if excess > worst and warps_are_slower(result, covered.result):
                worst, detail = excess, f"better {machine.name}: {result.cycles} against {before} cycles"
        return Outcome(worst, detail or f"{before} cycles, none of {tried} keys made it slower", covered.coverage)

    def _machines(self, covered: Covered) -> Iterator[tuple[str, GpuSpec]]:
        """The keys that the launches can feel, each with the machine on which it is better."""
        unused = _unused_sections(covered.traces)
        for key in self.keys or known_keys():
            if not key.startswith(unused):
                machine = improved(self.gpu, key, self.factor)
                if machine is not None:
                    yield key, machine


def _unused_sections(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Starts of the keys of pipes that no instruction of the launches needs."""
    used = {int(pipe) for trace in traces for pipe in set(trace.program.instructions["pipe"].tolist())}
    names = [name for name in PIPE_NAMES if int(PipeClass[name.upper()]) not in used]
    return tuple(f"pipes.{name}." for name in names) + (("tensor.",) if "tensor" in names else ())
