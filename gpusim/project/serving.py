"""An inference server under full load: many requests that wait at once, read and answered side by side by continuous
batching.

Mental model: the server's scheduler is played through, step by step, with projected times. Requests are alike (a prompt
and an answer of given lengths), so what is in progress is a queue of cohorts, each admitted in one step and finished
together; between two cohorts' ends all steps are alike but for their keys, and are taken together. What the host does
between steps runs beside them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from gpusim.errors import UsageError
from gpusim.project.bands import served_factor, widened
from gpusim.project.decoder import Decoder
from gpusim.project.frameworks import framework_of, pages_held
from gpusim.project.part import Interval
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.server import Server, server_of
from gpusim.project.whole import ModelProjection, project_model

#: Requests for each sequence that an engine can have in progress, where their number is not given: ramp and end are
#: then a small part.
_ROUNDS = 8
_MOST_REQUESTS = 200_000
#: Batches and keys of steps with prompts are told apart to one part in so many.
_PARTS = 16


@dataclass(frozen=True)
class ServingProjection:
    """``seconds``: from when all ``requests`` wait to the last token; ``per_token``: between two tokens of a sequence,
    the mean over all tokens; ``heaviest``: of the kinds of steps the one that takes most of the time;
    ``batch``: sequences in progress, the mean over all tokens; ``prompt_share``: of the time, in steps that read
    prompts; ``host_share``: in which GPUs wait for the host's work between steps; ``steps``: of each engine;
    ``joules``: of all GPUs."""

    server: Server
    plan: Plan
    requests: int
    seconds: Interval
    per_token: Interval
    heaviest: ModelProjection
    batch: float
    prompt_share: float
    host_share: float
    steps: int
    joules: float

    @property
    def output_tokens_per_second(self) -> float:
        """Of all replicas."""
        return self.requests * self.plan.output / self.seconds.seconds

    @property
    def at_once(self) -> int:
        """Sequences in progress at most, of all replicas: what they hold, or fewer where there are no more requests."""
        return min(self.requests, self.server.sequences * self.plan.data_parallel * self.plan.pipeline_parallel)


def project_serving(
    prices: Prices, config: Decoder, plan: Plan, requests: int | None = None, tokens: int | None = None, memory_share: float | None = None,
) -> ServingProjection:  # fmt: skip
    """``plan`` with phase "serve"; ``tokens`` a step and ``memory_share`` as :func:`gpusim.project.server.server_of`
    has them. Raises as that and as :func:`gpusim.project.whole.project_model`, and UsageError where no token is
    generated."""
    if not plan.output:
        raise UsageError("a server's requests need the number of tokens that each generates: give --output-tokens")
    plan.check(config)
    server = server_of(config, plan, prices.spec.name, float(prices.spec.dram.total_bytes), tokens, memory_share)
    engines = plan.data_parallel * plan.pipeline_parallel
    requests = requests or _ROUNDS * server.sequences * engines
    if requests > _MOST_REQUESTS:
        raise UsageError(f"{requests:,} requests: at most {_MOST_REQUESTS:,} are played through")
    played = _Played(prices, config, plan, server)
    own = -(-requests // engines)
    played.run(own)
    whole = played.times()
    factor = served_factor(plan.served_by, config.experts is not None, prices.spec.generation)
    # Those in progress wait while prompts are read without them.
    per_token = sum(each.waiting * each.seconds for each in played.steps.values()) / max(
        1, sum(each.generated for each in played.steps.values())
    )
    scale = per_token / whole.seconds
    each_token = Interval(per_token, whole.low_seconds * scale, whole.high_seconds * scale, whole.validated)
    count = sum(each.count for each in played.steps.values())
    prompts = sum(each.count * each.seconds for each in played.steps.values() if each.reads)
    joules = sum(each.count * each.projection.joules for each in played.steps.values())
    heaviest = max(played.steps.values(), key=lambda each: each.count * each.seconds)
    return ServingProjection(
        server, plan, requests, widened(whole, factor), widened(each_token, factor), replace(heaviest.projection, footprint=server.footprint), own * plan.output / count,
        prompts / whole.seconds, sum(each.count * each.host_seconds for each in played.steps.values()) / whole.seconds, count, joules * requests / (own * engines),
    )  # fmt: skip


@dataclass
class _Steps:
    """Steps of one kind: ``seconds`` of one while a pipeline is full, ``host_seconds`` of them in which GPUs wait for
    the host, how many there were, whether they read prompts, how many tokens beside prompts' first they generated, and
    for how many sequences in progress they lasted."""

    projection: ModelProjection
    seconds: float
    host_seconds: float
    reads: bool
    count: int = 0
    generated: int = 0
    waiting: int = 0


@dataclass
class _Played:
    """The scheduler of one engine: a replica, of a pipeline one of the groups of sequences that take turns in its
    stages. ``steps``: by what a step works on."""

    prices: Prices
    config: Decoder
    plan: Plan
    server: Server
    steps: dict[tuple[tuple[int, int, int], ...], _Steps] = field(default_factory=dict)

    def run(self, waiting: int) -> None:
        """Until ``waiting`` requests are answered."""
        output, mixed = self.plan.output, self.server.mixed
        cohorts: deque[tuple[int, int]] = deque()  # (step that generates their last token, sequences)
        step, active, ends, read = (
            0,
            0,
            0,
            0,
        )  # ends: sum of all last steps; read: tokens of a prompt that is read in part
        while waiting or active:
            groups, begun, read = self._admitted(waiting, active, read)
            if groups:
                self._took(groups, active if mixed else 0, self._keys(step, active, ends), 1, active)
                if not mixed:  # those in progress stand still
                    cohorts, ends = deque((last + 1, count) for last, count in cohorts), ends + active
                if begun:
                    last = step + output - 1
                    cohorts.append((last, begun))
                    waiting, active, ends = waiting - begun, active + begun, ends + begun * last
                step += 1
            else:
                run = cohorts[0][0] - step + 1
                self._took((), active, self._keys(step + (run - 1) / 2, active, ends), run, active)
                step += run
            while cohorts and cohorts[0][0] < step:
                last, count = cohorts.popleft()
                active, ends = active - count, ends - count * last

    def times(self) -> Interval:
        """Of all steps."""
        total, low, high, validated = 0.0, 0.0, 0.0, True
        for each in self.steps.values():
            step = each.projection.step
            share = each.count * each.seconds / step.seconds
            total, low, high = (
                total + share * step.seconds,
                low + share * step.low_seconds,
                high + share * step.high_seconds,
            )
            validated = validated and step.validated
        return Interval(total, low, high, validated)

    def _keys(self, step: float, active: int, ends: int) -> int:
        """Of a sequence in progress in ``step``, the mean: its prompt, and what it has generated."""
        return round(self.plan.sequence + self.plan.output - 1 - (ends / active - step)) if active else 0

    def _admitted(self, waiting: int, active: int, read: int) -> tuple[tuple[tuple[int, int, int], ...], int, int]:
        """Prompts of the next step, how many end in it, and what is then read of one that does not."""
        server, length = self.server, self.plan.sequence
        room, budget = min(server.sequences - active, waiting), server.tokens - (active if server.mixed else 0)
        groups: list[tuple[int, int, int]] = []
        if room <= 0 or budget <= 0:
            return (), 0, read
        begun = 0
        if read:
            taken = min(budget, length - read)
            groups.append((1, taken, read + taken))
            budget, read = budget - taken, read + taken
            begun, read = (1, 0) if read == length else (0, read)
        whole = 0 if read else min(room - begun, budget // length)
        if whole:
            groups.append((whole, length, length))
            begun, budget = begun + whole, budget - whole * length
        if server.chunked and not read and budget > 0 and room > begun:
            groups.append((1, budget, budget))
            read = budget
        return tuple(groups), begun, read

    def _took(
        self, prompts: tuple[tuple[int, int, int], ...], active: int, keys: int, count: int, waiting: int
    ) -> None:
        """``count`` steps that read ``prompts`` beside ``active`` sequences of so many keys, while ``waiting``
        sequences are in progress."""
        groups = prompts
        if active and prompts:
            groups = ((_rounded(active), 1, _rounded(keys)), *prompts)
        elif active:
            # What fills a graph up has one key.
            size = self.server.padded(active)
            groups = ((size, 1, max(1, _rounded(keys * active // size))),)
        known = self.steps.get(groups)
        if known is None:
            known = self.steps[groups] = self._priced(groups, bool(prompts))
        known.count += count
        known.generated += count * active
        known.waiting += count * waiting

    def _priced(self, groups: tuple[tuple[int, int, int], ...], reads: bool) -> _Steps:
        plan, turns = self.plan, self.plan.pipeline_parallel
        step = replace(
            plan, phase="mixed" if reads else "decode", groups=groups, output=0, micro_batches=turns,
            batch=turns * plan.data_parallel * sum(group[0] for group in groups), sequence=max(group[2] for group in groups),
        )  # fmt: skip
        found = project_model(self.prices, self.config, step)
        # A full pipeline is paced by its slowest stage, and does not run empty between steps.
        seconds = found.step.seconds if turns == 1 else found.bubble_seconds * turns / (turns - 1)
        device_seconds, framework, sequences = seconds, framework_of(plan), sum(group[0] for group in groups)
        if turns > 1 and framework.pipeline_sequence_seconds:
            seconds += turns * framework.pipeline_sequence_seconds * sequences
        else:
            pages = pages_held(groups, plan.page_tokens)
            name, shared = self.prices.spec.name, plan.tensor_parallel > 1
            seconds = framework.step_of(seconds, sequences, name, found.launch_seconds, pages, shared)
        return _Steps(found, seconds, seconds - device_seconds, reads)


def _rounded(value: int) -> int:
    """To one part in :data:`_PARTS`, so that steps which hardly differ are projected once."""
    unit = 1 << max(0, value.bit_length() - _PARTS.bit_length())
    return max(1, (value + unit // 2) // unit * unit)
