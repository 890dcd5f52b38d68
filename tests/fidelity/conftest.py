"""Rows of a GPU that is no real one: what an H200 whose L2 answers after twice the time would have measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim.compare.case_simulator import CaseSimulator
from gpusim.gpus.load import load_gpu
from gpusim.silicon.row import Estimate, SiliconRow

#: Short launches that use the memory path differently: latency of L1, L2, DRAM; bandwidth; arithmetic.
SHAPES = (
    ("pointer_chase", {"buffer_kib": 4, "loads": 256}),
    ("pointer_chase", {"buffer_kib": 1024, "loads": 192}),
    ("saxpy", {"n": 4096}),
    ("transpose", {"rows": 64, "columns": 64}),
    ("pipe_latency", {"op": "ffma", "rounds": 16}),
)


@pytest.fixture(scope="session")
def secret_rows(tmp_path_factory) -> list[SiliconRow]:
    """What an H200 whose L2 answers after twice the time would have measured, warm."""
    honest = load_gpu("h200")
    l2 = replace(honest.l2, hit_latency_ns=2 * honest.l2.hit_latency_ns)
    secret = replace(honest, l2=l2)
    simulator = CaseSimulator(secret, tmp_path_factory.mktemp("secret"))
    rows = []
    for kernel, shape in SHAPES:
        for launch in simulator.add(kernel, shape):
            result = simulator.simulate(launch, "warm", secret.clock_hz)
            rows.append(
                SiliconRow(
                    kernel,
                    launch.shape,
                    launch.index,
                    launch.grid,
                    launch.block,
                    launch.cubin_hash,
                    gpu="h200",
                    sm_clock_mhz=secret.clock_hz / 1e6,
                    method="events",
                    cache="warm",
                    n=50,
                    cycles=Estimate(result.cycles, 0.99 * result.cycles, 1.01 * result.cycles),
                    counters=result.counters,
                )
            )
    return rows
