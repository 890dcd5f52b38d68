"""Machine code runs on its own compute capability and on later minor versions of it, as the driver loads it."""

from __future__ import annotations

import pytest
from hand_traces import Asm, build

from gpusim.engine.gpu import check_architecture
from gpusim.errors import LaunchError
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import PipeClass


@pytest.mark.parametrize(
    ("capability", "gpu", "runs"),
    [
        ((8, 0), "a100_80gb", True),
        ((8, 0), "rtx3090", True),
        ((8, 0), "l40", True),
        ((8, 6), "a100_80gb", False),
        ((8, 9), "rtx3090", False),
        ((9, 0), "b200", False),
        ((10, 0), "rtx5090", False),
    ],
)
def test_code_runs_on_later_minor_versions(capability: tuple[int, int], gpu: str, runs: bool) -> None:
    trace = build(Asm().op(PipeClass.FMA, 4).exit(), capability=capability)
    if runs:
        check_architecture(trace, load_gpu(gpu))
        return
    with pytest.raises(
        LaunchError,
        match=rf"capability {capability[0]}\.{capability[1]}, {gpu} runs .* simulate it on a GPU of its own",
    ):
        check_architecture(trace, load_gpu(gpu))
