"""Tables of nccl-tests that others published (traces/library/collectives/published_tests.csv) beside what gpusim projects.

    python tools/published_collectives.py            of the learning half: a mean for each system and collective, below and from 1 MiB
    python tools/published_collectives.py --final    of the final half
    python tools/published_collectives.py --plain    without what is said of links within a node: as a GPU's file has them
    python tools/published_collectives.py --later    of tables that were found later, of other systems (published_tests_later.csv)
    python tools/published_collectives.py --latency  with each network's latency as its table's smallest row says, which counts no more

A row is of the learning half by the hash of its source, GPUs, links, collective and size. What a table says of its
nodes and their network is given as a user would give it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click
import pandas as pd

from gpusim.collective.links import Machine
from gpusim.collective.node import Node, node_of
from gpusim.collective.project import project_collective
from gpusim.collective.shape import Collective
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.projection import Projection

ROWS = Path(__file__).parents[1] / "traces" / "library" / "collectives" / "published_tests.csv"
LATER = ROWS.with_name("published_tests_later.csv")
#: nccl-tests without graphs, microseconds a GPU that one thread launches for: eight bytes take 42 us with eight RTX 4090,
#: 48 with eight V100, 39 with two nodes of eight H100, 23 with four V100, 18 with four RTX 4090, 12 with two H100.
_LAUNCH_US = 5.3
#: V100 boards whose NVLink is not used.
_PCIE_3_GB_PER_S = 16.0


def learns(row: Any) -> bool:
    """Whether a row is of the learning half."""
    key = f"{row.source} {row.gpus} {row.link} {row.collective} {row.message_bytes}"
    return hashlib.sha256(key.encode()).digest()[0] % 2 == 0


#: Rows of which a network's latency may be read.
_FEW_BYTES = 64 << 10


def described(row: Any, spec: GpuSpec, plain: bool, latency_us: float | None = None) -> Node:
    """The row's links as its table says, as a user would say them."""
    kind, _, rate = row.link.partition(" ")
    links = "file" if plain else {"bridge": "bridge", "pcie": rate}.get(kind, "file")
    own = float(rate) if links == "bridge" else None
    if links in ("peer", "host") and not node_of(spec).over_pcie:
        own = _PCIE_3_GB_PER_S
    network = None if pd.isna(row.network_gb_per_s) else row.network_gb_per_s
    return Machine(links, own, max(row.gpus // row.nodes, 1), network, latency_us).node(spec, row.gpus)


def projected(row: Any, plain: bool, latency_us: float | None = None) -> Projection:
    """A row's collective over the links that its table says."""
    spec = load_gpu(row.gpu)
    shape = Collective(row.collective, row.gpus, row.message_bytes, row.dtype)
    return project_collective(spec, shape, described(row, spec, plain, latency_us))


def network_of(row: Any) -> tuple[str, int]:
    """What has one latency: a table's nodes."""
    return row.source, row.nodes


def latencies(rows: pd.DataFrame, plain: bool) -> dict[tuple[str, int], tuple[int, float]]:
    """Of each table over several nodes with few bytes, the place of its smallest row and the latency that this row
    says, by what 10 us more or less make of it."""
    found: dict[tuple[str, int], tuple[int, float]] = {}
    few = rows[(rows["nodes"] > 1) & (rows["message_bytes"] <= _FEW_BYTES) & (rows["gpus_a_thread"] == 1)]
    row: Any
    for row in few.sort_values("message_bytes").itertuples():
        if network_of(row) not in found:
            some, more = (1e6 * projected(row, plain, us).seconds for us in (10.0, 20.0))
            found[network_of(row)] = (row.Index, max(1.0, 10.0 + 10.0 * (row.us - some) / (more - some)))
    return found


def errors(rows: pd.DataFrame, plain: bool = False, known: dict | None = None) -> pd.DataFrame:
    """``rows`` with ``projected_us``, what was chosen, and ``error_percent``; ``known``: of :func:`latencies`."""
    found = []
    row: Any
    for row in rows.itertuples(index=False):
        _, latency_us = (known or {}).get(network_of(row), (None, None))
        found.append(projected(row, plain, latency_us))
    us = [
        max(1e6 * each.seconds, _LAUNCH_US * row.gpus_a_thread)
        for each, row in zip(found, rows.itertuples(), strict=True)
    ]
    chosen = [each.operator.rpartition("GPUs, ")[2] for each in found]
    return rows.assign(projected_us=us, chosen=chosen, error_percent=100 * (pd.Series(us, rows.index) / rows["us"] - 1))


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Mean errors by system, below and from 1 MiB."""
    size = found["message_bytes"].ge(1 << 20).map({True: "from 1 MiB", False: "below"})
    groups = found.assign(size=size).groupby(["gpu", "gpus", "nodes", "link", "collective", "source", "size"])
    return groups["error_percent"].agg(rows="size", mean=lambda v: v.abs().mean(), signed="mean").round(1).reset_index()


@click.command()
@click.option("--final", is_flag=True, help="The final half.")
@click.option("--plain", is_flag=True, help="Links within a node as a GPU's file has them.")
@click.option("--later", is_flag=True, help="Tables that were found later.")
@click.option("--latency", is_flag=True, help="Of each network as its smallest row says.")
@click.option("--each", is_flag=True, help="Every row.")
def main(final: bool, plain: bool, later: bool, latency: bool, each: bool) -> None:
    """Compare published collectives."""
    rows = pd.read_csv(LATER if later else ROWS, keep_default_na=False, na_values={"network_gb_per_s": [""]})
    learning = pd.Series([learns(row) for row in rows.itertuples(index=False)])
    counted = (learning != final) & (rows["left_out"] == "")
    known = latencies(rows[rows["left_out"] == ""], plain) if latency else {}
    # A row that said its network's latency counts no more.
    counted &= ~rows.index.isin([place for place, _ in known.values()])
    found = errors(rows[counted], plain, known)
    for (source, nodes), (_, us) in sorted(known.items()):
        click.echo(f"{source}, {nodes} nodes: {us:.1f} us")
    if each:
        columns = [
            "source",
            "gpus",
            "link",
            "collective",
            "message_bytes",
            "us",
            "projected_us",
            "chosen",
            "error_percent",
        ]
        click.echo(found[columns].round(1).to_string(index=False))
    click.echo(summary(found).to_string(index=False))
    for name, part in (
        ("below 1 MiB", found["message_bytes"] < 1 << 20),
        ("from 1 MiB", found["message_bytes"] >= 1 << 20),
    ):
        for where, here in (("one node", found["nodes"] == 1), ("several nodes", found["nodes"] > 1)):
            errors_here = found[part & here]["error_percent"]
            click.echo(
                f"{name}, {where}: {len(errors_here)} rows, {errors_here.abs().mean():.1f} % mean, {errors_here.mean():+.1f} % signed"
            )
    click.echo(f"all: {len(found)} rows, {found['error_percent'].abs().mean():.1f} % mean")


if __name__ == "__main__":
    main()
