"""A whole model's step projected: seconds with an interval, what they are spent on, what is computed, moved, held, and
the energy.

Mental model: the operators of a micro-batch, stage by stage; micro-batches follow each other through the pipeline,
whose slowest stage paces them and which takes the other stages' time to fill and to empty (a piece of it where stages
work on pieces in turn: Narayanan et al., Efficient large-scale language model training on GPU clusters (2021), section
2.2); replicas do the same side by side. What communicates is waited for, but for the sum of gradients, which runs
beside the backward pass as far as that lasts.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.collective.shape import Collective
from gpusim.project.backward import gradient_sums, optimizer_step
from gpusim.project.bands import factor_of, region_of, widened
from gpusim.project.decoder import Decoder
from gpusim.project.energy import step_energy
from gpusim.project.footprint import Footprint, footprint_of, kept_parameters, parameters_by_copies, parameters_of
from gpusim.project.layers import kinds_of
from gpusim.project.load import steps_of
from gpusim.project.one_clock import at_one_clock
from gpusim.project.part import Interval, Priced, interval_of, merged, priced, seconds_of
from gpusim.project.peak import peak_flops
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.sharded import hidden_seconds as beside_computed
from gpusim.project.stages import stages_priced


@dataclass(frozen=True)
class ModelProjection:
    """One step of ``plan``: a prefill of the whole batch, one token of each sequence, or one step of training.

    ``step``: seconds with interval; ``items``: operators of one micro-batch through all stages, and what comes once a
    step; ``bubble_seconds``: in which a stage waits for others; ``communication_seconds``: of ``step``, waiting for
    other GPUs; ``hidden_seconds``: of communication beside computation, of all stages; ``host_seconds``: of ``step``,
    in which GPUs wait for kernels to be launched; ``launch_seconds``: that launching takes where no graph replays them,
    waited for or not; ``tokens``: of all replicas, read or generated; ``model_flops``: operations that the mathematics
    takes, of all GPUs; ``joules``: of all GPUs; ``energy_validated``: whether their error is known.
    """

    network: str
    gpu: str
    plan: Plan
    step: Interval
    items: tuple[Priced, ...]
    bubble_seconds: float
    communication_seconds: float
    hidden_seconds: float
    host_seconds: float
    launch_seconds: float
    tokens: int
    model_flops: float
    peak_flops: float
    parameters: float
    active_parameters: float
    footprint: Footprint
    joules: float
    energy_validated: bool

    @property
    def tokens_per_second(self) -> float:
        """Of all replicas."""
        return self.tokens / self.step.seconds

    @property
    def mfu(self) -> float:
        """Model FLOP/s utilisation: share of the tensor cores' peak in the plan's dtype (Chowdhery et al., PaLM (2022),
        appendix B)."""
        return self.model_flops / (self.step.seconds * self.peak_flops * self.plan.gpus)

    @property
    def watts(self) -> float:
        """Mean power of one GPU."""
        return self.joules / self.step.seconds / self.plan.gpus


def project_model(prices: Prices, config: Decoder, plan: Plan) -> ModelProjection:
    """A step of ``config`` by ``plan`` on GPUs of ``prices``. Raises UsageError for a plan that the network cannot be
    shared out by, SpecError where the GPU has no such operation."""
    plan.check(config)
    if prices.one_clock:
        return at_one_clock(prices, lambda at: project_model(at, config, plan))
    stages = stages_priced(config, plan, prices)
    micro = plan.micro_batches
    passing = _through([stage.seconds for stage in stages], plan)
    items = [item for stage in stages for item in stage.items]
    everything, active = parameters_of(config)
    once: tuple[Priced, ...] = ()
    hidden_seconds = 0.0
    if plan.phase == "train":
        # Sums scattered and weights gathered move what an all-reduce does.
        held = [] if plan.shares_weights else parameters_by_copies(config, plan)
        step = optimizer_step(kept_parameters(config, plan))
        once = priced([step, *gradient_sums(held, plan.stage_gpus)], prices)
        gradients = sum(item.seconds for item in once if item.operator.communicates)
        # Buckets are summed as the last micro-batch's backward pass (two thirds of its time) makes them, but for the
        # last layer's, and slow it. Pieces of a stage end one after the other, as many micro-batches behind each as
        # there are stages (Narayanan et al. (2021), figure 4).
        layers, turns = max(1, config.layers // plan.pipeline_parallel), _turns(plan)
        slowest = max(stages, key=lambda stage: stage.seconds)
        beside = min(gradients * (layers - 1) / layers / turns, slowest.seconds * 2 / 3)
        for item in once:
            if item.operator.communicates and isinstance(item.operator.op, Collective):
                part = beside * item.seconds / gradients
                hidden_seconds += turns * beside_computed(prices, slowest.items, item.operator.op, part)
    seconds = passing + seconds_of(once) - hidden_seconds
    shown = merged(items) + once
    energy = step_energy(prices.spec, plan, items, once, seconds, prices.limit_watts, prices.share)
    waited = sum(item.seconds for item in once if item.operator.communicates)
    waited += _through([stage.exposed_seconds for stage in stages], plan)
    hidden_by_turns = sum(max(0.0, stage.communication_seconds - stage.exposed_seconds) for stage in stages)
    waiting = [stage.seconds - stage.device_seconds for stage in stages]
    factor = factor_of(prices.spec.generation, region_of(plan.phase, tokens_of(plan)))
    return ModelProjection(
        network=config.name, gpu=prices.spec.name, plan=plan, step=widened(interval_of(shown, seconds), factor), items=shown,
        bubble_seconds=passing - micro * sum(stage.seconds for stage in stages) / len(stages),
        communication_seconds=waited - hidden_seconds, hidden_seconds=hidden_seconds + micro * hidden_by_turns,
        host_seconds=_through(waiting, plan), launch_seconds=sum(stage.host_seconds for stage in stages), tokens=tokens_of(plan),
        model_flops=_model_flops(config, plan, active), peak_flops=peak_flops(prices.spec, plan.dtype), parameters=everything, active_parameters=active,
        footprint=footprint_of(config, plan, float(prices.spec.dram.total_bytes)), joules=energy.joules, energy_validated=energy.validated,
    )  # fmt: skip


def _through(each: list[float], plan: Plan) -> float:
    """What stages take ``each`` for a micro-batch, of all micro-batches through all of them."""
    return plan.micro_batches * max(each) + (sum(each) - max(each)) / plan.virtual_stages


def _turns(plan: Plan) -> int:
    """Micro-batches whose backward passes gradients of a stage's pieces are summed beside."""
    return min(plan.pipeline_parallel, plan.micro_batches) if plan.virtual_stages > 1 else 1


def tokens_of(plan: Plan) -> int:
    """Tokens of a step, of all replicas."""
    each = sum(load.tokens for load in steps_of(plan))
    return each * plan.micro_batches * plan.data_parallel


def _model_flops(config: Decoder, plan: Plan, active: float) -> float:
    """Two operations a parameter and token, and attention's; three times as many in training."""
    flops = 0.0
    dims = (
        config.head_dim
        if config.latent is None
        else (config.latent.plain_dim + config.latent.rotary_dim + config.latent.value_dim) / 2
    )
    table, linear = config.vocabulary * config.hidden, config.linear
    attending = sum(not kind.linear for kind in kinds_of(config))
    for load in steps_of(plan):
        rows = load.tokens if plan.phase == "train" else load.ends
        flops += 2.0 * (active - table) * load.tokens + 2.0 * table * rows
        for group in load.groups:
            # Under a causal mask a query meets the keys before it.
            met = group.queries * (group.keys - (group.queries - 1) / 2)
            flops += 4.0 * group.sequences * met * config.heads * dims * attending
            if linear is not None:
                # A token reads its state, changes it and reads it again (Yang et al., Gated Delta Networks (2024),
                # equation 10).
                state = linear.value_heads * linear.key_dim * linear.value_dim
                flops += 6.0 * group.sequences * group.queries * state * (config.layers - attending)
    return flops * plan.micro_batches * plan.data_parallel * (3.0 if plan.phase == "train" else 1.0)
