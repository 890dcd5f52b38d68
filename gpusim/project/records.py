"""A model's projection as rows: plain names and figures, rounded to what is known of them.

Mental model: one record a plan (tables, JSON, sweeps), and one an operator (the breakdown); both are flat, so that they
pipe.
"""

from __future__ import annotations

from typing import Any

from gpusim.project.limits import limiters
from gpusim.project.part import Interval
from gpusim.project.prices import Prices
from gpusim.project.requests import RequestProjection
from gpusim.project.serving import ServingProjection
from gpusim.project.whole import ModelProjection

#: What a step's time is called, by phase.
STEP = {"prefill": "time to first token", "decode": "time per output token", "mixed": "step", "train": "training step"}


def figure(value: float, digits: int = 4) -> float:
    """``value`` rounded to so many significant digits."""
    return float(f"{value:.{digits}g}")


def _milliseconds(name: str, interval: Interval) -> dict[str, Any]:
    return {
        f"{name}_ms": figure(1e3 * interval.seconds),
        f"{name}_ms_low": figure(1e3 * interval.low_seconds),
        f"{name}_ms_high": figure(1e3 * interval.high_seconds),
    }


def _plan(found: ModelProjection) -> dict[str, Any]:
    plan = found.plan
    return {
        "model": found.network, "gpu": found.gpu, "gpus": plan.gpus, "phase": plan.phase, "batch": plan.batch, "sequence": plan.sequence, "output": plan.output,
        "tp": plan.tensor_parallel, "pp": plan.pipeline_parallel, "dp": plan.data_parallel, "ep": plan.expert_parallel, "dtype": plan.dtype,
        "experts_dtype": plan.of_experts, "attention_dtype": plan.of_attention, "kv_dtype": plan.kv_dtype, "chunk": plan.chunk, "micro_batches": plan.micro_batches, "virtual_stages": plan.virtual_stages, "overlap": plan.overlap,
        "framework": plan.served_by + f" {plan.engine}" * bool(plan.engine), "launch": plan.launch, "sampling": plan.sampling,
        **({"recompute": plan.recompute, "zero": plan.zero, "scores": plan.scores, "loss": plan.loss} if plan.phase == "train" else {}),
    }  # fmt: skip


def run_record(prices: Prices) -> dict[str, Any]:
    """Of the run's power limit, where it is another than the board's own or acts on the mean of a step, and of what is
    said of the machine's links."""
    found: dict[str, Any] = {}
    if prices.limit_watts is not None:
        found["power_limit_watts"] = figure(prices.limit_watts)
    return found | ({"one_clock": True} if prices.one_clock else {}) | prices.machine.said()


def _memory(found: ModelProjection) -> dict[str, Any]:
    held = found.footprint
    return {
        "memory_gb": figure(held.total_bytes / 1e9), "memory_of_gb": figure(held.capacity_bytes / 1e9), "fits": held.fits,
        "weights_gb": figure(held.weight_bytes / 1e9), "kv_cache_gb": figure(held.kv_bytes / 1e9),
    }  # fmt: skip


def step_record(found: ModelProjection) -> dict[str, Any]:
    """Of one step. ``tokens_per_s``: read or generated, of all GPUs."""
    return {
        **_plan(found), **_milliseconds("step", found.step), "validated": found.step.validated,
        "tokens_per_s": figure(found.tokens_per_second), "tokens_per_s_per_gpu": figure(found.tokens_per_second / found.plan.gpus),
        "tokens_per_joule": figure(found.tokens / found.joules), "watts_per_gpu": figure(found.watts, 3), "energy_validated": found.energy_validated,
        "mfu_percent": figure(100 * found.mfu, 3), "limiter": limiters(found)[0][0],
        "communication_percent": figure(100 * found.communication_seconds / found.step.seconds, 3),
        "hidden_communication_percent": _hidden_percent(found), "host_percent": figure(100 * found.host_seconds / found.step.seconds, 3), "bubble_percent": figure(100 * max(0.0, found.bubble_seconds) / found.step.seconds, 3), **_memory(found),
    }  # fmt: skip


def _hidden_percent(found: ModelProjection) -> float:
    """Of the communication, what runs beside computation."""
    whole = found.hidden_seconds + found.communication_seconds
    return figure(100 * found.hidden_seconds / whole, 3) if whole else 0.0


def request_record(found: RequestProjection) -> dict[str, Any]:
    """Of a batch of requests. ``tokens_per_s``: generated, of all GPUs, while the batch lasts."""
    first = found.first
    plan = _plan(first) | {"phase": "request"}
    rate = found.output_tokens_per_second
    return {
        **plan, **_milliseconds("ttft", first.step), **_milliseconds("tpot", found.per_token), "seconds": figure(found.seconds.seconds),
        "validated": found.seconds.validated, "tokens_per_s": figure(rate), "tokens_per_s_per_gpu": figure(rate / first.plan.gpus),
        "tokens_per_joule": figure(first.plan.batch * first.plan.output / found.joules),
        "watts_per_gpu": figure(found.joules / found.seconds.seconds / first.plan.gpus, 3), "energy_validated": found.middle.energy_validated,
        "prefill_mfu_percent": figure(100 * first.mfu, 3), "decode_limiter": limiters(found.middle)[0][0],
        "communication_percent": figure(100 * found.middle.communication_seconds / found.middle.step.seconds, 3),
        "hidden_communication_percent": _hidden_percent(found.middle), **_memory(first),
    }  # fmt: skip


def serving_record(found: ServingProjection) -> dict[str, Any]:
    """Of a server under full load. ``tokens_per_s``: generated, of all GPUs; ``batch``: sequences in progress at most,
    of all replicas; ``step_tokens``: new ones of an engine's step at most."""
    step, plan, server = found.heaviest, found.plan, found.server
    rate = found.output_tokens_per_second
    return {
        **_plan(step), "phase": "serve", "batch": found.at_once, "sequence": plan.sequence, "output": plan.output, "requests": found.requests, "step_tokens": server.tokens,
        "mean_batch": figure(found.batch), "memory_batch": server.memory_sequences * plan.data_parallel * plan.pipeline_parallel,
        "seconds": figure(found.seconds.seconds), "seconds_low": figure(found.seconds.low_seconds), "seconds_high": figure(found.seconds.high_seconds),
        **_milliseconds("tpot", found.per_token), "validated": found.seconds.validated, "requests_per_s": figure(rate / plan.output),
        "tokens_per_s": figure(rate), "tokens_per_s_per_gpu": figure(rate / plan.gpus), "tokens_per_joule": figure(found.requests * plan.output / found.joules),
        "watts_per_gpu": figure(found.joules / found.seconds.seconds / plan.gpus, 3), "energy_validated": step.energy_validated,
        "prompt_steps_percent": figure(100 * found.prompt_share, 3), "host_percent": figure(100 * found.host_share, 3), "limiter": limiters(step)[0][0], **_memory(step),
    }  # fmt: skip


def operator_records(found: ModelProjection) -> list[dict[str, Any]]:
    """Of every operator of a micro-batch, the costliest first. ``share_percent``: of their sum."""
    total = sum(item.seconds for item in found.items)
    rows = []
    for item in sorted(found.items, key=lambda item: -item.seconds):
        projection = item.projection
        rows.append({
            "part": item.operator.part, "operator": item.operator.name, "what": projection.operator, "launches": item.operator.count,
            "us": figure(1e6 * projection.seconds), "ms_in_all": figure(1e3 * item.seconds), "share_percent": figure(100 * item.seconds / total, 3),
            "limiter": projection.limiter, "tflops": figure(projection.flops / projection.seconds / 1e12, 3),
            "dram_gb_per_s": figure(projection.dram_bytes / projection.seconds / 1e9, 3), "validated": projection.validated, "basis": projection.reason,
        })  # fmt: skip
    return rows


def part_shares(found: ModelProjection) -> list[tuple[str, float]]:
    """Share of the operators' time by part of the network, communication apart, the largest first."""
    shares: dict[str, float] = {}
    total = 0.0
    for item in found.items:
        name = "communication" if item.operator.communicates else item.operator.part
        shares[name] = shares.get(name, 0.0) + item.seconds
        total += item.seconds
    return sorted(((name, seconds / total) for name, seconds in shares.items()), key=lambda pair: -pair[1])


def not_validated(found: ModelProjection) -> list[tuple[str, float]]:
    """Reasons why operators' intervals are not known, with their share of the time, the largest first."""
    shares: dict[str, float] = {}
    total = sum(item.seconds for item in found.items)
    for item in found.items:
        if not item.projection.validated:
            shares[item.projection.reason] = shares.get(item.projection.reason, 0.0) + item.seconds / total
    return sorted(shares.items(), key=lambda pair: -pair[1])
