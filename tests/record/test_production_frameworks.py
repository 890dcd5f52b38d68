"""Frameworks: PyTorch's profiler around a block, and the traces that JAX writes."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import gpusim.production
from gpusim.errors import ProductionError, ToolchainError, UsageError
from gpusim.production.columns import named
from gpusim.production.file import read
from gpusim.production.imports import xla
from gpusim.production.profiling import Profiled, profile
from gpusim.production.suite_cases import SuiteCase, case_of

KERNEL = {
    "ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_tn", "pid": 0, "tid": 7, "ts": 110.0, "dur": 20.5,
    "args": {"device": 0, "stream": 7, "correlation": 5, "grid": [4, 2, 1], "block": [128, 1, 1], "registers per thread": 90, "shared memory": 512},
}  # fmt: skip
CALL = {
    "ph": "X",
    "cat": "cuda_runtime",
    "name": "cudaLaunchKernel",
    "pid": 1,
    "tid": 1,
    "ts": 103.0,
    "dur": 2.0,
    "args": {"correlation": 5},
}
OPERATOR = {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 100.0, "dur": 9.0,
    "args": {"Input Dims": [[64, 32], [32, 48]], "Input type": ["float", "float"]},
}  # fmt: skip


class Profiler:
    """As torch.profiler.profile is: a context that writes a trace afterwards."""

    def __init__(self, **options) -> None:
        self.options, self.ended = options, False

    def __enter__(self) -> Profiler:
        return self

    def __exit__(self, *error) -> None:
        self.ended = True

    def export_chrome_trace(self, path: str) -> None:
        assert self.ended
        with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as stream:
            json.dump(
                {
                    "schemaVersion": 1,
                    "deviceProperties": [{"id": 0, "name": "A100"}],
                    "traceEvents": [OPERATOR, CALL, KERNEL],
                },
                stream,
            )


@pytest.fixture
def torch_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.profiler")
    module.profile = Profiler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.profiler", module)


def _error_of(profiled: Profiled) -> str:
    with pytest.raises(UsageError) as raised:
        _ = profiled.production
    return str(raised.value)


def test_a_profiled_block_is_rows(torch_profiler: None, tmp_path: Path) -> None:
    with profile(tmp_path / "a.production", trace=tmp_path / "trace.json.gz", with_stack=True) as profiled:
        early = _error_of(profiled)
    assert "has not ended" in early
    assert profiled.profiler.options == {"record_shapes": True, "with_stack": True}
    (total,) = profiled.production.totals
    assert (total.sum_ns, total.what.operator, total.what.gpu) == (20_500, "aten::mm", "A100")
    case = case_of(named([total])[0])
    assert isinstance(case, SuiteCase) and case.request == "sgemm_register:m=64,n=48,k=32"
    assert read(tmp_path / "a.production").totals == [total] and (tmp_path / "trace.json.gz").is_file()


def test_a_block_that_raises_leaves_no_file(torch_profiler: None, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), profile(tmp_path / "a.production"):
        _ = 1 // 0
    assert not list(tmp_path.iterdir())


def test_without_pytorch_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    with pytest.raises(ToolchainError, match="pip install torch"), profile():
        pass
    assert gpusim.production.profile is profile
    with pytest.raises(AttributeError):
        _ = gpusim.production.nothing


def test_pytorchs_own_profiler(tmp_path: Path) -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install 'gpusim[torch]'")
    torch = importlib.import_module("torch")
    with profile(tmp_path / "a.production", trace=tmp_path / "trace.json") as profiled:
        torch.mm(torch.ones(8, 16), torch.ones(16, 4))
    (source,) = profiled.production.sources
    assert source.format == "kineto" and source.events > 0 and source.damaged == 0
    if not torch.cuda.is_available():
        assert profiled.production.totals == [] and "no kernel" in source.notes[0]


def xla_trace(*events: dict) -> dict:
    """What XLA's profiler writes of a GPU: streams, and lines that are derived from them."""
    names = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 13, "name": "thread_name", "args": {"name": "Stream #13(Compute,MemcpyD2D)"}},
        {"ph": "M", "pid": 1, "tid": 99, "name": "thread_name", "args": {"name": "XLA Ops"}},
        {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "M", "pid": 701, "tid": 13, "name": "thread_name", "args": {"name": "Stream #13"}},
    ]
    return {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*names, *events, {}]}


def test_a_trace_of_jax(tmp_path: Path) -> None:
    fusion = {
        "ph": "X", "pid": 1, "tid": 13, "ts": 5.0, "dur": 3.25, "name": "loop_add_fusion",
        "args": {"hlo_op": "loop_add_fusion.1", "hlo_module": "jit_step", "correlation_id": "7",
                 "kernel_details": "regs:16 static_shared:64 dynamic_shared:1024 grid:12,2,1 block:128,1,1 occ_pct:100"},
    }  # fmt: skip
    copy = {
        **fusion,
        "name": "MemcpyD2H",
        "dur": 1.0,
        "args": {"memcpy_details": "kind_src:device kind_dst:pinned size:4096 dest:0 async:1"},
    }
    events = [fusion, fusion, copy, {**fusion, "tid": 99}, {**fusion, "pid": 701}, {**fusion, "dur": -1.0}]
    path = tmp_path / "vm.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(xla_trace(*events)).encode()))
    assert xla.recognises(path, gzip.decompress(path.read_bytes())[:4096])
    production = xla.read(path)
    rows = {row.name.family: row for row in named(production.totals)}
    what = rows["elementwise"].total.what
    assert (what.grid, what.block, what.shared_bytes, what.registers) == ((12, 2, 1), (128, 1, 1), 1088, 16)
    assert (what.operator, what.phase, what.device) == ("loop_add_fusion.1", "jit_step", "0")
    assert (rows["elementwise"].total.launches, rows["elementwise"].total.sum_ns) == (2, 6500)
    assert (rows["copy"].name.operation, rows["copy"].total.moved_bytes) == ("device_to_host", 4096)
    (source,) = production.sources
    assert (source.launches, source.damaged) == (3, 1)


@pytest.mark.parametrize(
    "details", ["grid:1,1 block:a,b,c", "grid:" + "9" * 300, "regs:-1 static_shared:x", ":::", "grid:0,0,0"]
)
def test_details_that_are_none_are_not_known(tmp_path: Path, details: str) -> None:
    event = {"ph": "X", "pid": 1, "tid": 13, "ts": 5.0, "dur": 3.25, "name": "k", "args": {"kernel_details": details}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(xla_trace(event)))
    (total,) = xla.read(path).totals
    assert (total.what.grid, total.what.block, total.what.shared_bytes, total.what.registers) == (
        None,
        None,
        None,
        None,
    )


def test_a_trace_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(xla_trace(KERNEL))[:-40])
    with pytest.raises(ProductionError):
        xla.read(path)


def test_what_jax_writes_without_a_gpu(tmp_path: Path) -> None:
    if find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    jax = importlib.import_module("jax")
    with jax.profiler.trace(str(tmp_path)):
        jax.numpy.ones(8).sum().block_until_ready()
    for path in tmp_path.rglob("*.trace.json.gz"):
        assert xla.read(path).sources[0].events > 0
