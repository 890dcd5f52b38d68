"""Making inputs and having them judged: from seeds and what has turned out to be new, in one process.

Mental model: an input is kept as a parent of others when its outcome is one that was not seen before (another message,
from another place), so that search goes on where a reader's checks ended. Coverage of code leads further, where atheris
is installed (:mod:`fuzzing.guided`); this engine needs nothing, and the same seed gives the same inputs everywhere.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzzing.judge import Outcome, judge
from fuzzing.targets import Target, clean

#: Parents that are kept at most; the oldest but the seeds go.
_MOST_PARENTS = 400
#: Inputs of the machine's memory, where there is a file system for them: a million small files wear out no disk.
_MEMORY = "/dev/shm"
#: Processor seconds after which the system ends a process that does not come back from an input.
HANG_SECONDS = 20.0


@dataclass
class Report:
    """``inputs`` judged; ``faults``: name -> (smallest input so far, its outcome); ``kinds`` of outcomes seen."""

    inputs: int = 0
    faults: dict[str, tuple[bytes, Outcome]] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    def add(self, data: bytes, outcome: Outcome) -> bool:
        """Whether the outcome is new."""
        self.inputs += 1
        if outcome.fault:
            known = self.faults.get(outcome.fault)
            if known is None or len(data) < len(known[0]):
                self.faults[outcome.fault] = (data, outcome)
        new = outcome.what not in self.kinds
        self.kinds.add(outcome.what)
        return new


@contextmanager
def reader(target: Target, alarm: bool = False) -> Iterator[Callable[..., Outcome]]:
    """A function (data, check_time=True) that has an input judged, in a folder of its own. ``alarm``: a hang ends the
    process."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None, prefix="gpusim-fuzz-") as folder:
        inner = Path(folder) / "inner"
        inner.mkdir()
        path, before = inner / target.file, Path.cwd()
        os.chdir(inner)  # what an input names is looked for here

        def read(data: bytes, check_time: bool = True) -> Outcome:
            path.write_bytes(data)
            # Who is not timed is a seed: the first one may compile the engine, which takes longer than a hang may.
            timed = alarm and check_time
            if timed:
                signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
            outcome = judge(target.read, path, target.most_bytes, check_time)
            if timed:
                signal.setitimer(signal.ITIMER_PROF, 0)
            clean(inner)
            return outcome

        try:
            for seed in target.seeds():  # imports and compiles what reading needs
                read(seed, check_time=False)
            yield read
        finally:
            os.chdir(before)


def run(
    target: Target,
    seed: int,
    most_inputs: float = float("inf"),
    most_seconds: float = float("inf"),
    *,
    alarm: bool = False,
    check_time: bool = True,
    watch: Callable[[bytes, int], None] = lambda data, count: None,
    found: Callable[[str, bytes, Outcome], None] = lambda fault, data, outcome: None,
) -> Report:
    """Judge inputs until either limit. ``watch`` sees each before it is read; ``found`` each fault when it is new."""
    rng, report = Random(seed), Report()
    seeds = target.seeds()
    parents = list(seeds)
    end = time.monotonic() + most_seconds
    with reader(target, alarm) as read:
        while report.inputs < most_inputs and time.monotonic() < end:
            first = report.inputs < len(seeds)
            # Half of the time one of the last that were new.
            recent = parents[-20:] if rng.random() < 0.5 else parents
            data = seeds[report.inputs] if first else target.mutate(rng.choice(recent), rng, parents)
            watch(data, report.inputs)
            outcome = read(data, check_time)
            known = len(report.faults)
            if report.add(data, outcome) and not outcome.fault and not first:
                parents.append(data)
                if len(parents) > _MOST_PARENTS:
                    del parents[len(seeds)]
            if len(report.faults) > known:
                found(outcome.fault, data, outcome)
    return report
