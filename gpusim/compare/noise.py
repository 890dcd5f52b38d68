"""The noise of GPU timings as a process that makes samples: what verdicts must stand.

Mental model: a run of a benchmark repeats one launch; each sample is the kernel's own time multiplied by jitter, by
the clock of that moment (which drifts or hops between two states), now and then by an interruption, and all of it by the
level of that run. No recorded samples of real silicon ship with gpusim yet; until they do, the sizes below are taken from
what others have published, and :class:`RecordedNoise` takes their place as soon as rows with samples are at hand.

Sources: nvbench stops by default at a relative standard deviation of 0.5 %, which many benchmarks of CUB never
reach (NVIDIA/nvbench, commit d3a0bec); on a throttling GPU it showed 3.2 % (NVIDIA/nvbench pull request 206), for kernels of
20 us 3.5 % (issue 231), and repeated runs of one binary are often told apart falsely by mean and deviation (issue 316).
Clock states differ by steps of 15 MHz, 0.9 % at 1.7 GHz; power-limited kernels hop over several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.compare.statistics import enough
from gpusim.errors import NoDataError


@dataclass(frozen=True)
class Noise:
    """One regime. All sizes in percent of the kernel's time unless they say otherwise.

    ``jitter``: standard deviation of independent log-normal noise. ``tail_share``: share (0 to 1) of samples with an
    interruption, of exponential length ``tail``. ``drift``: largest sag of the clock from the first to the last sample of a run.
    ``hop``: distance of two clock states, which last ``hop_samples`` samples in the mean; the share of time in either is
    drawn anew for each run. ``run``: standard deviation of a run's level.
    """

    name: str
    jitter: float
    tail_share: float = 0.03
    tail: float = 5.0
    drift: float = 0.0
    hop: float = 0.0
    hop_samples: int = 12
    run: float = 0.3

    def draw_run(self, random: np.random.Generator, n: int) -> np.ndarray:
        """Times of one run's samples relative to the kernel's own, float64[n]."""
        return self.levels(random, n) * self._jitter(random, n)

    def draw_pair(self, random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Two samples taken in turns in one run: the clock's course is common to both."""
        course = self.levels(random, 2 * n) * self._jitter(random, 2 * n)
        return course[0::2], course[1::2]

    def levels(self, random: np.random.Generator, n: int) -> np.ndarray:
        """The course of a run without jitter and interruptions, float64[n]."""
        time = np.linspace(0, 1, n)
        level = np.exp(random.normal(0, self.run / 100)) * (1 + random.uniform(0, self.drift / 100) * time)
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


#: A measurement's stopping rule: half the width of the median's 95 % interval, and the least and most samples.
TARGET_PERCENT, FIRST_SAMPLES, MOST_SAMPLES = 0.5, 100, 400
#: From a locked clock to a GPU at its power limit.
REGIMES = (
    Noise("locked clock", jitter=0.5),
    Noise("free clock", jitter=1.0, drift=1.5),
    Noise("hopping clock", jitter=0.7, hop=1.8),
    Noise("short kernel", jitter=3.0, tail_share=0.05, tail=10.0),
)


@dataclass(frozen=True)
class RecordedNoise:
    """Noise as measured: stretches of recorded samples, each run from one recording, start drawn at random."""

    name: str
    recordings: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, samples: Sequence[Sequence[float]], name: str = "recorded") -> RecordedNoise:
        """From the raw samples of several rows; those of fewer than 16 say nothing about noise."""
        kept = tuple(np.asarray(s, float) / np.median(s) for s in samples if len(s) >= 16)
        if not kept:
            raise NoDataError("no row holds 16 samples or more: there is no recorded noise to draw from")
        return cls(name, kept)

    def draw_run(self, random: np.random.Generator, n: int) -> np.ndarray:
        """As :meth:`Noise.draw_run`; recordings shorter than ``n`` go round."""
        recording = self.recordings[random.integers(len(self.recordings))]
        return recording[(random.integers(len(recording)) + np.arange(n)) % len(recording)]

    def draw_pair(self, random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`Noise.draw_pair`."""
        course = self.draw_run(random, 2 * n)
        return course[0::2], course[1::2]


@dataclass(frozen=True)
class Trial:
    """One comparison to judge: two samples in microseconds, and the change that was put in."""

    regime: str
    slowdown_percent: float
    interleaved: bool
    base_us: np.ndarray
    head_us: np.ndarray


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
        n = max(_enough(base), _enough(head))
        base, head = base[:n], head[:n]
        kernel_us = 5.0 * 1000 ** random.random()
        slower = kernel_us * (1 + slowdown_percent / 100)
        yield Trial(noise.name, slowdown_percent, interleaved, kernel_us * base, slower * head)



def _enough(samples: np.ndarray) -> int:
    """How many of the samples a measurement takes that looks at its interval after each FIRST_SAMPLES of them."""
    for n in range(FIRST_SAMPLES, len(samples), FIRST_SAMPLES):
        if enough(samples[:n], TARGET_PERCENT):
            return n
    return len(samples)
