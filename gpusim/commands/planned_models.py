"""The options of ``gpusim project MODEL`` as a plan, and that plan projected: what one projection and a sweep share.

Mental model: options in, a checked :class:`gpusim.project.plan.Plan` out; which function projects it, and as which
record, follows from its phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpusim.collective.links import Machine
from gpusim.errors import SpecError, UsageError
from gpusim.project.decoder import Decoder
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.records import request_record, serving_record, step_record
from gpusim.project.requests import RequestProjection, project_request
from gpusim.project.server import as_many_as_fit
from gpusim.project.serving import ServingProjection, project_serving
from gpusim.project.shown import Projected
from gpusim.project.whole import project_model

_MOST_GPUS = 1 << 20


def refuse(options: Mapping[str, Any], where: str, *names: str) -> None:
    for name in names:
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-')} {where} has no meaning: leave it out")


def gpu_and_count(text: str) -> tuple[str, int | None]:
    """A GPU's name or file, and how many of them, None where that is not said."""
    name, colon, count = text.rpartition(":")
    if not colon or Path(text).exists():
        return text, None
    if not count.isascii() or not count.isdigit() or not 1 <= int(count[:9]) <= _MOST_GPUS:
        raise UsageError(f"--gpu {text!r}: after the colon stands a number of GPUs between 1 and {_MOST_GPUS:,}")
    return name, int(count)


def plan_of(options: Mapping[str, Any], count: int | None) -> Plan:
    """As the options say; ``count``: of GPUs, which --tp fills where it is not given."""
    others, tensor_parallel, batch = options["pp"] * options["dp"], options["tp"], options["batch"]
    if batch is None:
        batch = as_many_as_fit(options["dp"]) if options["phase"] == "serve" else 1
    if tensor_parallel is None:
        tensor_parallel = 1 if count is None else count // others
    plan = Plan(
        phase=options["phase"], batch=batch, sequence=options["sequence"], output=options["output"] if options["phase"] in ("request", "serve") else 0,
        tensor_parallel=max(1, tensor_parallel), pipeline_parallel=options["pp"], data_parallel=options["dp"], expert_parallel=options["ep"],
        dtype=options["dtype"], kv_dtype=options["kv_dtype"], chunk=options["chunk"], micro_batches=options["micro_batches"], virtual_stages=options["virtual_stages"],
        recompute=options["recompute"], zero=options["zero"], overlap=options["overlap"], reads=options["reads"], scores=options["scores"], loss=options["loss"], all_reduce=options["all_reduce"],
        experts_dtype=options["experts_dtype"] or "", attention_dtype=options["attention_dtype"] or "", page_tokens=options["page_tokens"],
        framework=options["framework"] or "", engine=options["engine"] or "", launch=options["launch"], sampling=options["sampling"],
    )  # fmt: skip
    if count is not None and plan.gpus != count:
        raise UsageError(
            f"--gpu says {count} GPUs, and tensor x pipeline x data parallel, {plan.tensor_parallel} x {plan.pipeline_parallel} x {plan.data_parallel}, "
            f"are {plan.gpus}"
        )
    return plan


def refuse_of_others(options: Mapping[str, Any]) -> None:
    """Options of a server with another phase, and those of a step with a server."""
    serving = options["phase"] == "serve"
    if not serving:
        refuse(options, f"with --phase {options['phase']}", "requests", "step_tokens", "memory_share")
        return
    if options["overlap"] != "none" or options["traces"] is not None or options["chunk"]:
        raise UsageError("--overlap, --traces and --chunk are of one step: leave them out with --phase serve")


#: Options of links, and the value of a GPU's file that each replaces.
_REPLACED = {
    "link_gb_per_s": "node.link_bytes_per_ns",
    "gpus_per_node": "node.gpus",
    "network_gb_per_s": "node.network_bytes_per_ns",
    "network_latency_us": "node.network_latency_ns",
}


def machine_of(options: Mapping[str, Any]) -> Machine:
    """As the options of links say. Raises UsageError where a setting of the GPU says the same."""
    for name, key in _REPLACED.items():
        both = [*options["settings"], *options["what_if"]] if options[name] is not None else []
        if any(setting.partition("=")[0].strip() == key for setting in both):
            raise UsageError(f"{key} and --{name.replace('_', '-')} are the same: say it once")
    return Machine(options["links"], *(options[name] for name in _REPLACED))


def projected(prices: Prices, network: Decoder, plan: Plan, options: Mapping[str, Any]) -> Projected:
    try:
        prices.machine.node(prices.spec, plan.gpus)
    except SpecError as error:
        raise UsageError(str(error)) from error
    if plan.phase == "serve":
        return project_serving(
            prices, network, plan, options["requests"], options["step_tokens"], options["memory_share"]
        )
    return project_request(prices, network, plan) if plan.phase == "request" else project_model(prices, network, plan)


def record_of(found: Projected) -> dict[str, Any]:
    if isinstance(found, ServingProjection):
        return serving_record(found)
    return request_record(found) if isinstance(found, RequestProjection) else step_record(found)
