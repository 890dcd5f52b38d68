"""How a plan is run, in words: what neither its load nor its GPUs say, and somebody must know who compares its time
with another's.

Mental model: a setting is named where it acts on the phase, whether it was asked for or is the default, since a reader
of a page does not see the command. One line a phase.
"""

from __future__ import annotations

from gpusim.project.plan import Plan
from gpusim.project.prices import Prices

_RECOMPUTED = {
    "none": "all activations kept",
    "selective": "attention's activations computed again (selective recomputation)",
    "full": "all activations computed again (full recomputation)",
}
_ATTENTION = {
    "fused": "attention in one kernel",
    "flash-2": "attention by FlashAttention-2",
    "flash-triton": "attention by FlashAttention in Triton",
    "eager": "attention's scores in memory",
}
_TURNS = "halves of the batch take turns, one computes while the other's collectives run"
_LINKS = {
    "peer": "PCIe with peer access",
    "host": "PCIe through the host's memory",
    "bridge": "a bridge between two GPUs",
}
_LAUNCHED = {"eager": "kernels launched one by one", "graphs": "kernels replayed as a CUDA graph"}


def schedule_of(plan: Plan) -> str:
    """Of training how a step is cut up, what overlaps, what is computed again and what replicas share out; of serving
    whose kernels run and in which formats."""
    return "; ".join(_training(plan) if plan.phase == "train" else _serving(plan))


def power_of(prices: Prices) -> list[tuple[str, str]]:
    """A line of the power limit, where it is another than the board's own or acts on the mean of a step."""
    own = prices.spec.board.power_limit_watts
    said = []
    if prices.limit_watts is not None:
        said.append(f"{prices.limit_watts:g} W a board" + (f" in place of its {own:g}" if own else ""))
    if prices.one_clock:
        said.append("one clock for all operators of a step, by their mean power")
    return [("power limit", "; ".join(said))] if said else []


def links_of(prices: Prices) -> list[tuple[str, str]]:
    """A line of what is said of the machine's links beside the GPU's file."""
    machine, said = prices.machine, []
    if machine.links != "file":
        said.append(_LINKS[machine.links])
    if machine.link_gb_per_s is not None:
        said.append(f"{machine.link_gb_per_s:g} GB/s one way of a GPU")
    if machine.gpus_per_node is not None:
        said.append(f"{machine.gpus_per_node} GPUs a node")
    if machine.network_gb_per_s is not None:
        said.append(f"{machine.network_gb_per_s:g} GB/s one way of a node's network cards")
    if machine.network_latency_us is not None:
        said.append(f"{machine.network_latency_us:g} us from node to node")
    return [("links", "; ".join(said))] if said else []


def _training(plan: Plan) -> list[str]:
    found = [_pieces(plan)]
    if plan.tensor_parallel > 1:
        found.append(
            f"sums over {plan.tensor_parallel} tensor-parallel GPUs {'run beside products' if plan.overlap == 'products' else 'are waited for'}"
        )
    if plan.data_parallel > 1:
        found += _replicas(plan)
    if plan.overlap == "two-batch":
        found.append(_TURNS)
    found.append(_RECOMPUTED[plan.recompute])
    found.append(_ATTENTION[plan.scores])
    if plan.loss == "fused":
        found.append("loss and its gradient in one kernel over logits in 16 bits")
    return found


def _replicas(plan: Plan) -> list[str]:
    if plan.shares_weights:
        return [
            "weights, gradients and the optimizer's state are shared out over replicas (ZeRO 3), which gather each layer before its forward and before its backward pass, beside what is computed",
        ]
    kept = "the optimizer's state is shared out over replicas (ZeRO 1)" if plan.zero else "each replica keeps the optimizer's whole state"  # fmt: skip
    return ["gradients are summed over replicas beside the backward pass", kept]


def _pieces(plan: Plan) -> str:
    micro = plan.micro_batches
    found = f"{micro} micro-batch{'es' if micro > 1 else ''} a replica, {_sequences(plan.replica_batch // micro)} each"
    if plan.pipeline_parallel == 1:
        return found
    pieces = plan.virtual_stages
    held = f"{pieces} pieces of its layers in turn (virtual stages)" if pieces > 1 else "one piece of its layers"
    return f"{found}, through {plan.pipeline_parallel} stages of {held}"


def _sequences(count: int) -> str:
    return f"{count} sequence{'s' if count > 1 else ''}"


def _serving(plan: Plan) -> list[str]:
    engine = f" {plan.engine}" if plan.engine else ""
    found = [f"{plan.served_by}{engine}'s kernels", f"keys and values in {plan.kv_dtype}"]
    if plan.tensor_parallel > 1:
        found.append(
            "layers' sums by NCCL" if plan.all_reduce == "nccl" else "layers' small sums by the framework's own kernels"
        )
    if plan.phase in ("prefill", "mixed", "request") and plan.chunk:
        found.append(f"prompts in chunks of {plan.chunk:,} tokens")
    if plan.micro_batches > 1:
        found.append(_pieces(plan))
    if plan.overlap == "two-batch":
        found.append(_TURNS)
    if plan.reads == "each":
        found.append("keys and values that heads share read once for each of them")
    if plan.launch in _LAUNCHED:
        found.append(_LAUNCHED[plan.launch])
    return found
