"""What ``gpusim project collective`` does."""

from __future__ import annotations

import click

from gpusim.collective.choice import why_chosen
from gpusim.collective.figures import figures_of
from gpusim.collective.links import Machine
from gpusim.collective.project import project_collective, time_of
from gpusim.collective.shape import Collective
from gpusim.commands.planned_models import gpu_and_count
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import format_pairs, format_records
from gpusim.tile.bands import LEVEL_PERCENT

#: That take part where nobody says how many: those of a server's board.
_GPUS = 8


def collective(
    kind: str, message_bytes: int, gpus: int | None, library: str, links: str, link_gb_per_s: float | None, gpus_per_node: int | None,
    network_gb_per_s: float | None, network_latency_us: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    gpu, count = gpu_and_count(gpu)
    if count is not None and gpus is not None and count != gpus:
        raise UsageError(f"--gpu says {count} GPUs, and --gpus {gpus}: say it once")
    gpus = count or gpus or _GPUS
    if gpus < 2:
        raise UsageError("a collective is among 2 GPUs at least")
    spec = load_gpu(gpu)
    shape = Collective(kind, gpus, message_bytes, library=library)
    node = Machine(links, link_gb_per_s, gpus_per_node, network_gb_per_s, network_latency_us).node(spec, gpus)
    found = project_collective(spec, shape, node)
    timing = time_of(node, spec.generation, figures_of(spec.generation), shape)
    us, low_us, high_us = (1e6 * each for each in (found.seconds, found.low_seconds, found.high_seconds))
    why = why_chosen(node, spec.generation, shape, timing.algorithm)
    bus = shape.wire_bytes / found.seconds / 1e9
    record = {
        "gpu": spec.name, "kind": kind, "gpus": gpus, "message_bytes": message_bytes, "library": library, "us": float(f"{us:.4g}"), "us_low": float(f"{low_us:.4g}"),
        "us_high": float(f"{high_us:.4g}"), "validated": found.validated, "algorithm": timing.algorithm, "protocol": timing.protocol, "why": why,
        "bus_gb_per_s": float(f"{bus:.4g}"), "link_gb_per_s": node.link_bytes_per_second / 1e9, "limiter": found.limiter,
    }  # fmt: skip
    if form != "table":
        click.echo(format_records([record], form))
        return
    protocol = f", protocol {timing.protocol}" if timing.protocol else ""
    lines = [
        ("collective", f"{kind} of {message_bytes:,} bytes among {gpus} x {spec.name}"),
        ("time", f"{us:.4g} us ({low_us:.4g} to {high_us:.4g})"),
        ("interval", f"{LEVEL_PERCENT} % of measurements should lie within; {found.reason}"),
        ("algorithm", f"{timing.algorithm}{protocol}"),
        ("why", why),
        ("bus", f"{bus:.4g} GB/s, of {node.link_bytes_per_second / 1e9:.4g} one way that a GPU has"),
        ("limiter", found.limiter),
    ]
    click.echo(format_pairs(lines, form))
