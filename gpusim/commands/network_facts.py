"""``gpusim workloads``: what real networks launch, as kernels of the suite with their shapes; the work."""

from __future__ import annotations

import click

from gpusim.cases.networks import network_launches, networks
from gpusim.cases.simulation_cost import duration_text, simulation_seconds
from gpusim.cases.suite import shape_text
from gpusim.report.tables import format_records


def list_(form: str) -> None:
    """What :func:`gpusim.commands.workloads.list_` declares, with its arguments."""
    records = [{"network": n.name, "kind": n.kind, "layers": n.layers, "source": n.source} for n in networks()]
    click.echo(format_records(records, form))


def show(network: str, phase: str, batch: int, sequence: int, tensor_parallel: int, precision: str, form: str) -> None:
    """What :func:`gpusim.commands.workloads.show` declares, with its arguments."""
    launches = network_launches(
        network, phase=phase, batch=batch, sequence=sequence, tensor_parallel=tensor_parallel, precision=precision
    )
    records = [
        {
            "layer": launch.layer,
            "operator": launch.operator,
            "count": launch.count,
            "workload": f"{launch.kernel}:{shape_text(launch.shape)}",
            "simulate_s": _rounded(simulation_seconds(launch.kernel, launch.shape)),
            "note": launch.note,
        }
        for launch in launches
    ]
    click.echo(format_records(records, form))
    each = {record["workload"]: record["simulate_s"] for record in records if record["simulate_s"] != ""}
    if each:
        click.echo(
            f"simulating each of the {len(each)} workloads once: about {duration_text(sum(each.values()))}", err=True
        )


def _rounded(seconds: float | None) -> float | str:
    """Two digits: more are not known."""
    return "" if seconds is None else float(f"{seconds:.2g}")
