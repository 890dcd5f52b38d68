"""The noise of GPU timings as a process that makes samples: what verdicts must stand.

Mental model: a run of a benchmark repeats one launch; each sample is the kernel's own time multiplied by jitter, by
the clock of that moment (which drifts or hops between two states), now and then by an interruption, and all of it by
the level of that run. No recorded samples of real silicon ship with gpusim yet; until they do, the sizes below are
taken from what others have published, and :class:`RecordedNoise` takes their place as soon as rows with samples are at
hand.

Sources: nvbench stops by default at a relative standard deviation of 0.5 %, which many benchmarks of CUB never
reach (NVIDIA/nvbench, commit d3a0bec); on a throttling GPU it showed 3.2 % (NVIDIA/nvbench pull request 206), for
kernels of 20 us 3.5 % (issue 231), and repeated runs of one binary are often told apart falsely by mean and deviation
(issue 316). Clock states differ by steps of 15 MHz, 0.9 % at 1.7 GHz; power-limited kernels hop over several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.compare.statistics import enough
from gpusim.errors import NoDataError
from gpusim.silicon.row import SiliconRow


@dataclass(frozen=True)
class Noise:
    """One regime. All sizes in percent of the kernel's time unless they say otherwise.

    ``jitter``: standard deviation of independent log-normal noise. ``tail_share``: share (0 to 1) of samples with an
    interruption, of exponential length ``tail``. ``drift``: largest sag of the clock from the first to the last sample
    of a run.
    ``hop``: distance of two clock states, which last ``hop_samples`` samples in the mean; the share of time in either
    is drawn anew for each run. ``run``: standard deviation of a run's level, which is not the clock's.
    ``clock_sensitivity``: share of a change of the clock that the kernel's time clock_sensitivity (1: it computes, 0:
    it waits for memory).
    """

    name: str
    jitter: float
    tail_share: float = 0.03
    tail: float = 5.0
    drift: float = 0.0
    hop: float = 0.0
    hop_samples: int = 12
    run: float = 0.3
    clock_sensitivity: float = 1.0

    def draw_run(self, random: np.random.Generator, n: int) -> Drawn:
        """One run of ``n`` samples."""
        period = self.period(random, n)
        level = np.exp(random.normal(0, self.run / 100)) * period**self.clock_sensitivity
        return Drawn(level * self._jitter(random, n), _read_clock(random, period))

    def draw_pair(self, random: np.random.Generator, n: int) -> tuple[Drawn, Drawn]:
        """Two samples taken in turns in one run: the clock's course is common to both."""
        both = self.draw_run(random, 2 * n)
        return tuple(Drawn(both.times[side::2], both.clocks_mhz[side::2]) for side in (0, 1))

    def period(self, random: np.random.Generator, n: int) -> np.ndarray:
        """The course of the clock's period over a run, relative to its shortest, float64[n]."""
        level = 1 + random.uniform(0, self.drift / 100) * np.linspace(0, 1, n)
        if self.hop:
            share = random.uniform(0.15, 0.85)
            state = random.random() < share
            states = np.empty(n, bool)
            for i in range(n):  # a two-state chain whose long-run share of the slow state is ``share``
                leave = (1 - share) if state else share
                state = state != (random.random() < leave * 2 / self.hop_samples)
                states[i] = state
            level = level * (1 + states * self.hop / 100)
        return level

    def _jitter(self, random: np.random.Generator, n: int) -> np.ndarray:
        struck = random.random(n) < self.tail_share
        return np.exp(random.normal(0, self.jitter / 100, n)) * (1 + struck * random.exponential(self.tail / 100, n))


@dataclass(frozen=True)
class Drawn:
    """A run: ``times`` relative to the kernel's own, float64[n]; ``clocks_mhz`` read beside them, None where nobody
    did."""

    times: np.ndarray
    clocks_mhz: np.ndarray | None

    def first(self, n: int) -> Drawn:
        """The first ``n`` samples."""
        return Drawn(self.times[:n], None if self.clocks_mhz is None else self.clocks_mhz[:n])


def _read_clock(random: np.random.Generator, period: np.ndarray) -> np.ndarray:
    """What ``gpusim measure`` notes of the clock: read before and after each burst of samples, a burst's samples all
    get the mean of the two."""
    n = len(period)
    bursts = -(-n // BURST)
    at = np.minimum(np.arange(bursts + 1) * BURST, n - 1)
    readings = TOP_MHZ / period[at] * np.exp(random.normal(0, CLOCK_READING / 100, bursts + 1))
    return np.repeat((readings[:-1] + readings[1:]) / 2, BURST)[:n]


#: Samples between two readings of the clock (RUNS_A_ROUND of gpusim/measure/rounds.py), and the boost clock of an H200.
BURST, TOP_MHZ = 3, 1980.0
#: Standard deviation of a reading, percent: 200 us between two steps of a timer of 32 ns or more, found by polling. A
#: guess.
CLOCK_READING = 0.05
#: Tuning looks at the first seed alone, tests at the second; whoever changes a rule draws a new second one afterwards.
TUNING_SEED, HELD_OUT_SEED = 1000, 20261
#: A measurement's stopping rule: half the width of the median's 95 % interval, and the least and most samples.
TARGET_PERCENT, FIRST_SAMPLES, MOST_SAMPLES = 0.35, 100, 800
#: From a locked clock to a GPU at its power limit.
REGIMES = (
    Noise("locked clock", jitter=0.5),
    Noise("free clock", jitter=1.0, drift=1.5),
    Noise("hopping clock", jitter=0.7, hop=1.8),
    Noise("hopping clock, memory-bound", jitter=0.7, hop=1.8, clock_sensitivity=0.0),
    Noise("power limit", jitter=1.0, drift=1.0, hop=4.5, hop_samples=40, clock_sensitivity=0.8),
    Noise("short kernel", jitter=3.0, tail_share=0.05, tail=10.0),
)


@dataclass(frozen=True)
class RecordedNoise:
    """Noise as measured: stretches of recorded runs, start drawn at random."""

    name: str
    recordings: tuple[Drawn, ...]

    @classmethod
    def of(cls, rows: Sequence[SiliconRow], name: str = "recorded") -> RecordedNoise:
        """From the raw samples of several rows, with their clocks where they have them; those of fewer than 16 samples
        say nothing about noise."""
        kept = tuple(
            Drawn(
                np.asarray(row.samples_us, float) / np.median(row.samples_us),
                np.asarray(row.samples_mhz, float) if row.samples_mhz else None,
            )
            for row in rows
            if len(row.samples_us) >= 16
        )
        if not kept:
            raise NoDataError("no row holds 16 samples or more: there is no recorded noise to draw from")
        return cls(name, kept)

    def draw_run(self, random: np.random.Generator, n: int) -> Drawn:
        """As :meth:`Noise.draw_run`; recordings shorter than ``n`` go round."""
        recording = self.recordings[random.integers(len(self.recordings))]
        at = (random.integers(len(recording.times)) + np.arange(n)) % len(recording.times)
        return Drawn(recording.times[at], None if recording.clocks_mhz is None else recording.clocks_mhz[at])

    def draw_pair(self, random: np.random.Generator, n: int) -> tuple[Drawn, Drawn]:
        """As :meth:`Noise.draw_pair`."""
        both = self.draw_run(random, 2 * n)
        clocks = both.clocks_mhz
        return tuple(Drawn(both.times[side::2], None if clocks is None else clocks[side::2]) for side in (0, 1))


@dataclass(frozen=True)
class Trial:
    """One comparison to judge: two samples in microseconds, and the change that was put in."""

    regime: str
    slowdown_percent: float
    interleaved: bool
    base_us: np.ndarray
    head_us: np.ndarray
    clocks_mhz: tuple[np.ndarray, np.ndarray] | None

    def without_clocks(self) -> Trial:
        """The same, as who reads no clock measures it."""
        return replace(self, clocks_mhz=None)


def trials(
    regimes: Sequence[Noise | RecordedNoise],
    count: int,
    *,
    slowdown_percent: float = 0.0,
    interleaved: bool = False,
    seed: int = 0,
) -> Iterator[Trial]:
    """``count`` comparisons, the regimes in turn; 0 percent makes them A/A. Kernels take 5 us to 5 ms, and are
    repeated as a measurement does it: until both medians are known to TARGET_PERCENT, or MOST_SAMPLES."""
    random = np.random.default_rng(seed)
    for index in range(count):
        noise = regimes[index % len(regimes)]
        if interleaved:
            base, head = noise.draw_pair(random, MOST_SAMPLES)
        else:
            base, head = noise.draw_run(random, MOST_SAMPLES), noise.draw_run(random, MOST_SAMPLES)
        n = max(_enough(base.times), _enough(head.times))
        base, head = base.first(n), head.first(n)
        kernel_us = 5.0 * 1000 ** random.random()
        slower = kernel_us * (1 + slowdown_percent / 100)
        clocks = None if base.clocks_mhz is None or head.clocks_mhz is None else (base.clocks_mhz, head.clocks_mhz)
        yield Trial(noise.name, slowdown_percent, interleaved, kernel_us * base.times, slower * head.times, clocks)


def _enough(samples: np.ndarray) -> int:
    """How many of the samples a measurement takes that looks at its interval after each FIRST_SAMPLES of them."""
    for n in range(FIRST_SAMPLES, len(samples), FIRST_SAMPLES):
        if enough(samples[:n], TARGET_PERCENT):
            return n
    return len(samples)
