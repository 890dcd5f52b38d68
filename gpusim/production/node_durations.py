"""How long the computations of an execution trace take on a described GPU, projected from what its nodes say of their
sizes.

Mental model: a node of a product or of attention has the shapes of its inputs (its own, or those of the host's operator
that it waits for, whose kernels share its time); another has its operations and bytes, of which the slower counts. Of
what says neither nothing is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpusim.energy.power import power_limit
from gpusim.errors import SpecError
from gpusim.execution.trace import ExecutionTrace, Node
from gpusim.gpus.spec import GpuSpec
from gpusim.production.operator_shapes import attention_sizes, input_dims, product_sizes
from gpusim.project.operator import Shape
from gpusim.project.prices import Prices
from gpusim.tile.described import library_on
from gpusim.tile.machine import tile_machine
from gpusim.tile.operators import AttentionOp, GemmOp, MemoryOp

#: Types of elements as PyTorch names them in traces -> ours.
_DTYPES = {"bfloat16": "bf16", "half": "fp16", "float": "tf32", "char": "int8", "float8": "fp8"}


@dataclass(frozen=True)
class Durations:
    """``seconds``: by node id, of what could be projected; ``ways``: how many by which way ("product", "attention",
    "operations and bytes"); ``unknown``: of the rest how many have which name."""

    seconds: dict[int, float]
    ways: Counter[str]
    unknown: Counter[str]


def projected_durations(spec: GpuSpec, trace: ExecutionTrace, limit_watts: float | None = None) -> Durations:
    """Of the trace's computations on the GPU; ``limit_watts``: another power limit than the board's. Raises SpecError
    for a limit below what idles."""
    if limit_watts is not None:
        power_limit(spec, limit_watts)  # refused here, where one node's refusal would pass for an unknown product
    prices, nodes = Prices(spec, limit_watts=limit_watts), {node.id: node for node in trace.nodes}
    kernels: Counter[int] = Counter()
    above: dict[int, int] = {}
    for node in trace.nodes:
        if node.kind == "compute" and not node.inputs:
            host = next((each for each in node.depends if nodes[each].kind == "host" and nodes[each].inputs), None)
            if host is not None:
                above[node.id] = host
                kernels[host] += 1
    found = Durations({}, Counter(), Counter())
    for node in trace.nodes:
        if node.kind != "compute":
            continue
        host = above.get(node.id)
        way, seconds = _projected(spec, prices, node if host is None else nodes[host], node)
        if seconds is None:
            found.unknown[node.name] += 1
            continue
        found.ways[way] += 1
        found.seconds[node.id] = seconds / (1 if host is None or way == "operations and bytes" else kernels[host])
    return found


def _projected(spec: GpuSpec, prices: Prices, shaped: Node, node: Node) -> tuple[str, float | None]:
    for way, op in _operators(shaped):
        try:
            return way, prices.of(op).seconds
        except SpecError:
            continue  # the GPU has no such product
    if node.operations or node.moved_bytes:
        return "operations and bytes", _bound(spec, prices, node)
    return "", None


def _operators(node: Node) -> Iterable[tuple[str, Shape]]:
    dtype = next((ours for name, ours in _DTYPES.items() if name in node.dtypes.lower()), "bf16")
    try:
        sizes = product_sizes(node.name, node.inputs)
        if sizes is not None:
            batch, rows, columns, depth = sizes
            yield "product", GemmOp(rows, columns, depth, dtype, batch=batch, input_dtype=dtype)
        query, dims = attention_sizes(node.name, node.inputs), input_dims(node.inputs)
        if query is not None and len(dims) > 1 and len(dims[1]) == 4:
            (batch, heads, tokens, size), (_, kv_heads, keys, _) = query, dims[1]
            phase = "generation" if tokens == 1 else "context"
            yield "attention", AttentionOp(phase, batch, tokens, keys, heads, kv_heads, size)
    except SpecError:
        return  # sizes that no operator has


def _bound(spec: GpuSpec, prices: Prices, node: Node) -> float:
    """The slower of its bytes and its operations, at the rate that large products reach."""
    library, machine = library_on(spec), tile_machine(spec, "bf16")
    rate = machine.sm_count * machine.flops_per_cycle * library.rate_largest * machine.clock_hz
    moved = prices.of(MemoryOp("copy", node.moved_bytes, 0.0, cold=True)).seconds
    return max(moved, 1e-9 * library.launch_ns + node.operations / rate)
