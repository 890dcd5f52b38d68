"""Triton's kernels come in by the same door as Numba's: what a launch compiles for, what it passes, autotuning,
mistakes in one line."""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpusim
from gpusim import cli
from gpusim.cases.names import kernel_names, refuse_unknown_kernel
from gpusim.errors import CompileError, LaunchError, ToolchainError, UnknownKernelError, UsageError
from gpusim.frontend.registry import compile_kernel, front_end_of
from gpusim.frontend.triton.diagnostics import diagnostics
from gpusim.trace.record import Trace

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'gpusim[triton]'")
tl = importlib.import_module("triton.language")
descriptors = importlib.import_module("triton.tools.tensor_descriptor")
GPU = "a100_80gb"


@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(out_ptr + place, x * factor, mask=place < n)


@triton.jit
def scale_once(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + place, mask=place < n) * factor, mask=place < n)


@triton.jit
def add_pair(pair, out_ptr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(pair[0] + place) + pair[1])


@triton.jit
def copy_tile(source, out_ptr, M: tl.constexpr, N: tl.constexpr):
    tile = source.load([M, 0])
    tl.store(out_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tile)


@triton.jit
def product(x_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr):
    row, depth = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(x_ptr + row[:, None] * K + depth[None, :])
    y = tl.load(x_ptr + row[None, :] * K + depth[:, None])
    tl.store(out_ptr + row[:, None] * M + row[None, :], tl.dot(x, y))


@triton.jit
def whole_product(x_ptr, out_ptr, M: tl.constexpr):
    place = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    x = tl.load(x_ptr + place)
    tl.store(out_ptr + place, tl.dot(x, x))


@triton.jit
def unassembled(x_ptr):
    tl.static_print("printed")
    x = tl.load(x_ptr + tl.arange(0, 32))
    tl.store(x_ptr + tl.arange(0, 32), tl.inline_asm_elementwise("frob.b32 $0, $1;", "=r,r", [x], tl.int32, True, 1))


@triton.jit
def misspelt(x_ptr):
    tl.store(x_ptr, undefined_name)  # noqa: F821


tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((32, 1), (128, 4), (1024, 4))],
    key=["n"],
)(scale)
ruled = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(scale)


def blocks(meta: Any) -> tuple[int]:
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def vector(n: int = 100, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n).astype(dtype), np.zeros(n, dtype)


def loads(trace: Trace) -> list[str]:
    return [text for text in trace.program.texts if "LDG" in text]


def test_a_launch_gives_numpy_s_result_and_the_lines_of_the_python_source() -> None:
    x, out = vector()
    trace = gpusim.capture(gpusim.triton(scale, BLOCK=64, num_warps=2), blocks, None, (x, out, 100, 3.0), gpu=GPU)
    assert (out == 3 * x).all()
    assert trace.launch.block == (64, 1, 1) and trace.launch.grid == (2, 1, 1)
    assert any(name.endswith("test_triton_front_end.py") for name in trace.program.files)
    source = Path(__file__).read_text().splitlines()
    load = next(i for i, text in enumerate(trace.program.texts) if "LDG" in text)
    assert "tl.load(x_ptr" in source[trace.program.instructions[load]["line"] - 1]
    assert gpusim.simulate(trace, gpu=GPU).cycles > 0


def test_the_code_is_what_triton_s_own_launch_would_specialise() -> None:
    x, out = vector(1028)
    kernel = gpusim.triton(scale, BLOCK=1024, num_warps=4)
    aligned = gpusim.capture(kernel, (2,), None, (x[:1024], out[:1024], 1024, 2.0), gpu=GPU)
    shifted = gpusim.capture(kernel, (2,), None, (x[1:1025], out[1:1025], 1024, 2.0), gpu=GPU)
    assert (out[:1025] == 2 * x[:1025]).all()
    assert any(".128" in each for each in loads(aligned)) and not any(".128" in each for each in loads(shifted))
    signature = {n: compile_kernel(kernel, (x, out, n, 2.0), (8, 0)).signature for n in (1, 16, 17, 1 << 40)}  # type: ignore[attr-defined]
    assert (
        signature[1][2] == "constexpr"
        and signature[16][2] == signature[17][2] == "i32"
        and signature[1 << 40][2] == "i64"
    )
    cubins = {n: compile_kernel(kernel, (x, out, n, 2.0), (8, 0)) for n in (16, 17, 32)}
    assert cubins[16] is cubins[32] and cubins[16] is not cubins[17]


def test_views_of_one_buffer_overlap_as_on_a_gpu() -> None:
    buffer = np.ones(40, np.float32)
    gpusim.capture(gpusim.triton(scale, BLOCK=32), (1,), None, (buffer[8:], buffer, 32, 5.0), gpu=GPU)
    assert (buffer[:8] == 5).all() and (buffer[32:] == 1).all()


class Exported:
    """An array of some other library, by DLPack."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.float64])
def test_arrays_of_any_type_are_pointers_of_it(dtype: Any) -> None:
    x, out = vector(60, dtype)
    gpusim.capture(gpusim.triton(scale, BLOCK=64), (1,), None, (x, out, np.int32(60), np.float64(2)), gpu=GPU)
    assert (out == (x * 2).astype(dtype)).all()


def test_arrays_of_other_libraries_and_read_only_ones_are_taken() -> None:
    x, out = vector()
    x.flags.writeable = False
    gpusim.capture(gpusim.triton(scale, BLOCK=128), (1,), None, (x, Exported(out), 100, 2), gpu=GPU)
    assert (out == 2 * x).all()


def test_a_torch_tensor_is_taken_where_it_lies() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.arange(100).to(torch.bfloat16)
    out = torch.zeros(110, dtype=torch.bfloat16)
    gpusim.capture(gpusim.triton(scale, BLOCK=128), (1,), None, (x, out[10:], 100, 2.0), gpu=GPU)
    assert torch.equal(out[10:], 2 * x)


def test_tuples_and_descriptors_are_passed_in_pieces() -> None:
    x, out = vector(32)
    gpusim.capture(gpusim.triton(add_pair, BLOCK=32), (1,), None, ((x, 7), out), gpu=GPU)
    assert (out == x + 7).all()
    table = np.arange(1024, dtype=np.float32).reshape(64, 16)
    tile = np.zeros((32, 16), np.float32)
    base = SimpleNamespace(__array_interface__=table.__array_interface__, dtype=table.dtype)
    base.data_ptr = lambda: table.ctypes.data
    source = descriptors.TensorDescriptor(base, [64, 16], [16, 1], [32, 16])
    kernel = gpusim.triton(copy_tile, M=32, N=16)
    gpusim.capture(kernel, (1,), None, (source, tile), gpu="sm_86")
    assert (tile == table[32:]).all()
    tile[:] = 0
    gpusim.capture(kernel, (1,), None, (source, tile), gpu="sm_90")  # there it is a tensor map
    assert (tile == table[32:]).all()


@triton.jit
def add_all(pointers, out, count, N: tl.constexpr):
    total = tl.zeros((N,), tl.float32)
    for i in range(count):
        total += tl.load(tl.load(pointers + i).to(tl.pointer_type(tl.float32)) + tl.arange(0, N))
    tl.store(out + tl.arange(0, N), total)


def test_a_list_of_arrays_is_a_tensor_of_their_addresses() -> None:
    parts, out = [np.full(32, i, np.float32) for i in range(4)], np.zeros(32, np.float32)
    kernel = gpusim.triton(add_all, N=32)
    gpusim.capture(kernel, (1,), None, ([*parts, parts[3]], out, 5), gpu=GPU)
    assert (out == 9).all()
    with pytest.raises(UsageError, match="argument 0 of add_all: a list holds arrays, or None, not a str"):
        gpusim.capture(kernel, (1,), None, ([parts[0], "x"], out, 2), gpu=GPU)


def test_tiles_above_48_kib_run_and_those_above_the_gpu_s_limit_do_not() -> None:
    x = np.random.default_rng(0).random((128, 256)).astype(np.float16)
    out = np.zeros((64, 64), np.float32)
    kernel = gpusim.triton(product, K=256, num_warps=8)
    trace = gpusim.capture(kernel, (1,), None, (x[:64], out, 64), gpu=GPU)
    assert trace.launch.shared_bytes > 48 << 10
    np.testing.assert_allclose(out, x[:64].astype(np.float32) @ x[:64].T.astype(np.float32), rtol=1e-4)
    with pytest.raises(LaunchError, match="product.*shared"):
        gpusim.capture(kernel, (1,), None, (x, np.zeros((128, 128), np.float32), 128), gpu="rtx4090")


def test_autotuning_takes_the_configuration_of_fewest_cycles_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    x, out = vector(5000)
    before = out.copy()
    kernel = gpusim.triton(tuned)
    cycles = {}
    for number in range(3):
        own = gpusim.triton(tuned, config=number)
        cycles[number] = gpusim.simulate(
            gpusim.capture(own, blocks, None, (x, out, 5000, 2.0), gpu=GPU), gpu=GPU
        ).cycles
    best = min(cycles, key=lambda number: cycles[number])
    out[:] = before
    trace = gpusim.capture(kernel, blocks, None, (x, out, 5000, 2.0), gpu=GPU)
    told = capsys.readouterr().err
    assert gpusim.simulate(trace, gpu=GPU).cycles == cycles[best] and (out == 2 * x).all()
    assert (
        f"autotuned scale on {GPU}: BLOCK={(32, 128, 1024)[best]}" in told
        and f"{max(cycles.values()):,} cycles" in told
    )
    gpusim.capture(kernel, blocks, None, (x, out, 5000, 2.0), gpu=GPU)
    assert "autotuned" not in capsys.readouterr().err  # the same key again


def test_autotuning_leaves_the_arrays_alone_on_memory_that_is_kept() -> None:
    x, memory = np.ones(300, np.float32), gpusim.DeviceMemory()
    gpusim.capture(tuned, blocks, None, (x, x, 300, 2.0), gpu=GPU, memory=memory)
    assert (x == 2).all()


@pytest.mark.parametrize("config", [1, {"BLOCK": 128}, triton.Config({"BLOCK": 128}, num_warps=4)])
def test_a_configuration_can_be_named(config: Any) -> None:
    x, out = vector()
    trace = gpusim.capture(gpusim.triton(tuned, config=config), blocks, None, (x, out, 100, 2.0), gpu=GPU)
    assert trace.launch.grid == (1, 1, 1) and trace.launch.block == (128, 1, 1)


@triton.jit
def row_sums(x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK)), 0))


def test_a_program_of_several_blocks_is_a_cluster() -> None:
    x, out = np.arange(3 * 512, dtype=np.float32).reshape(3, 512), np.zeros(3, np.float32)
    trace = gpusim.capture(gpusim.triton(row_sums, num_ctas=2, BLOCK=512), (3,), None, (x, out), gpu="sm_90")
    assert out.tolist() == x.sum(axis=1).tolist()
    assert (trace.launch.grid, trace.launch.cluster) == ((6, 1, 1), (2, 1, 1))


def test_heuristics_and_bound_keywords_are_taken() -> None:
    x, out = vector()
    for kernel in (ruled, gpusim.triton(ruled), partial(ruled.fn, BLOCK=128, num_warps=1)):
        out[:] = 0
        gpusim.capture(kernel, blocks, None, (x, out, 100, 2.0), gpu=GPU)
        assert (out == 2 * x).all()


@pytest.mark.parametrize(
    ("kernel", "args", "error", "said"),
    [
        (partial(scale), (1, 2, 3, 4.0), UsageError, "scale.*BLOCK"),
        (partial(scale, BLOK=32), (1, 2, 3, 4.0, 32), UsageError, "scale.*BLOK"),
        (
            partial(scale, BLOCK=33),
            (np.ones(4), np.ones(4), 3, 4.0),
            CompileError,
            "scale does not compile.*power of 2",
        ),
        (misspelt, (np.ones(4),), CompileError, "misspelt does not compile.*undefined_name"),
        (partial(scale, BLOCK=32, num_ctas=2), (np.ones(4), np.ones(4), 3, 4.0), CompileError, "num_ctas"),
        (gpusim.triton(tuned, config=7), (1, 2, 3, 4.0), UsageError, "0 to 2, not 7"),
        (gpusim.triton(tuned, config={"num_warps": 4}), (1, 2, 3, 4.0), UsageError, "2 configurations"),
        (gpusim.triton(tuned, BLOCK=32), (1, 2, 3, 4.0), UsageError, "autotuned over BLOCK"),
    ],
)
def test_mistakes_are_told_in_one_line(kernel: Any, args: tuple, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        gpusim.capture(kernel, (1,), None, args, gpu=GPU)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kernel", "args", "gpu", "said"),
    [
        (partial(whole_product, M=32), (np.ones((32, 32), np.int8), np.zeros((32, 32), np.int32)), "t4",
         r"floating-point-like.*\(test_triton_front_end.py:[0-9]+, `tl.store\(out_ptr \+ place, tl.dot\(x, x\)\)`\), in Triton's pass"),
        (unassembled, (np.ones(32, np.int32),), GPU, "Not a name of any known instruction: 'frob'"),
    ],
)  # fmt: skip
def test_what_passes_and_the_assembler_refuse_is_told_in_one_line(
    kernel: Any, args: tuple, gpu: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """MLIR writes its reason, and the module, to descriptor 2; Triton prints the PTX to stdout. Both are kept as a
    note."""
    with pytest.raises(CompileError, match=said) as caught:
        gpusim.capture(kernel, (1,), None, args, gpu=gpu)
    assert capfd.readouterr() == ("", "")
    assert isinstance(caught.value.__cause__, Exception) and len("".join(caught.value.__cause__.__notes__)) > 1000


def test_a_home_that_cannot_be_written_is_no_mistake_of_the_kernel(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "file" / "cache"))

    def halved() -> np.ndarray:
        x, out = np.ones(32, np.float32), np.zeros(32, np.float32)
        gpusim.capture(gpusim.triton(scale_once, BLOCK=32), (1,), None, (x, out, 32, 0.5), gpu=GPU)
        return out

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "triton"))
    with pytest.raises(ToolchainError, match=r"compiling scale_once: .*file.*: TRITON_CACHE_DIR names another folder"):
        halved()
    monkeypatch.delenv("TRITON_CACHE_DIR")
    assert (halved() == 0.5).all()


def test_what_a_kernel_prints_as_it_compiles_and_warnings_come_through(capfd: pytest.CaptureFixture[str]) -> None:
    with diagnostics() as heard:
        os.write(2, b"a warning\n")
        os.write(2, b"x.py:1:2: ")
        os.write(2, b"error: of a pass that went on\nmodule {}\n")
    assert heard is not None and heard.reason().startswith("of a pass that went on (x.py:1")
    assert capfd.readouterr().err == "a warning\nx.py:1:2: error: of a pass that went on\nmodule {}\n"


def test_what_is_no_kernel_and_a_triton_that_is_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="@triton.jit"):
        gpusim.triton(lambda x: x)
    with pytest.raises(LaunchError, match="the grid asks for 'BLOKC'"):
        gpusim.capture(gpusim.triton(scale, BLOCK=32), lambda meta: meta["BLOKC"], None, (*vector(), 3, 4.0), gpu=GPU)
    monkeypatch.setitem(__import__("sys").modules, "triton", None)
    with pytest.raises(ToolchainError, match=r"pip install 'gpusim\[triton\]'"):
        gpusim.triton(scale)


def test_the_suite_s_kernels_name_the_extra_where_triton_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "triton" else plain(name, *rest)
    )
    assert not any(name.startswith("triton_") for name in kernel_names())
    with pytest.raises(UnknownKernelError, match=r"triton_add needs the package triton.*gpusim\[triton\]"):
        refuse_unknown_kernel("triton_add")


def test_a_signature_says_types_where_there_are_no_arguments() -> None:
    end = front_end_of(scale)
    kernel = gpusim.triton(scale, num_warps=1)
    wide = end.compile_signature(kernel, "*fp32:16, *fp32:16, i32:16, fp32, BLOCK=128", (10, 0))
    narrow = end.compile_signature(kernel, "*fp32, *fp32, i32, fp32, 128", (10, 0))
    assert any("LDG" in each.text and ".128" in each.text for each in wide.decode())
    assert not any(".128" in each.text for each in narrow.decode())
    with pytest.raises(UsageError, match="say the types"):
        end.compile_signature(kernel, None, (8, 0))
    with pytest.raises(UsageError, match=r"'\*float'"):
        end.compile_signature(kernel, "*float, 3", (8, 0))


def test_bench_takes_launches_as_triton_writes_them() -> None:
    x, out = vector(3000)
    few = gpusim.bench(lambda: scale[(3,)](x, out, 3000, 2.0, BLOCK=1024, num_warps=4), gpu=GPU)
    assert isinstance(few, float) and few > 0 and (out == 2 * x).all()
    with pytest.raises(RuntimeError):  # afterwards Triton asks for a device again
        scale[(3,)](x, out, 3000, 2.0, BLOCK=1024)


CASE = """
import numpy as np, triton, triton.language as tl, gpusim

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(x_ptr + place, 2 * x, mask=place < n)

def case(n: int = 1000):
    x = np.ones(n, np.float32)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    return gpusim.triton(double, BLOCK=256), grid, None, (x, n), lambda: bool((x == 2).all())
"""


def test_a_case_of_a_file_is_simulated_checked_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(CASE)
    assert cli.run(["simulate", "my.py:case:n=600", "--gpu", GPU, "--by", "line"]) == 0
    assert "my.py" in capsys.readouterr().out
    assert cli.run(["capture", "my.py:case", "--gpu", GPU, "--check", "memory,race", "-o", "out"]) == 0
    signature = ["--signature", "*fp32:16, i32, BLOCK=256"]
    assert cli.run(["sass", "my.py:double", "--gpu", "b200", *signature]) == 0
    assert "LDG.E" in capsys.readouterr().out
    assert cli.run(["sass", "my.py:double", "--gpu", "b200"]) == 2
    assert "BLOCK=1024" in capsys.readouterr().err
