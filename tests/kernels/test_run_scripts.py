"""``gpusim run``: do programs as users write them run unmodified, and is what happened told truthfully?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from forked_commands import gpusim as forked

from gpusim.trace.record import Trace

HEAD = """
import sys, warnings
import numpy as np
from numba import cuda
warnings.simplefilter("ignore")

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2
"""


@pytest.fixture
def run(tmp_path):
    """``run(text, *arguments, options=[...])``: run a script and return the finished process, one with its own start
    where settings of the environment are given."""

    def call(
        text: str, *arguments: str, options=(), head: str = HEAD, **environment: str
    ) -> subprocess.CompletedProcess:
        (tmp_path / "script.py").write_text(head + textwrap.dedent(text))
        words = (*options, str(tmp_path / "script.py"), *arguments)
        return gpusim(*words, cwd=tmp_path, **environment) if environment else forked("run", *words, cwd=tmp_path)

    return call


def gpusim(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "gpusim.cli", "run", *map(str, arguments)]
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)


def finished(process: subprocess.CompletedProcess) -> str:
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_arrays_that_are_collected_while_a_launch_runs_are_freed(run) -> None:
    """Numba frees device memory when an array is collected, in whichever thread that happens."""
    said = finished(
        run("""
        import gc, threading

        class Circle:
            def __init__(self):
                self.itself, self.array = self, cuda.device_array(8, np.float32)

        # Collected where Numba has no launch of its own to make: in the thread that emulates them.
        gc.disable()
        threading.setprofile(lambda frame, event, argument: event == "call" and gc.collect(0))
        x = cuda.to_device(np.ones(32, np.float32))
        for _ in range(12):  # Numba frees ten at a time
            Circle()
            double[1, 32](x)
        print("ended")
    """)
    )
    assert said == "ended\n"


def test_a_debug_kernel_without_parameters_finds_its_error_code(run) -> None:
    process = run("""
        @cuda.jit(debug=True, opt=False)
        def idle():
            pass
        idle[1, 1]()
        print("idle")
    """)
    assert finished(process) == "idle\n"


def test_arrays_slices_streams_and_events(run) -> None:
    process = run("""
        x = np.arange(1000, dtype=np.float32)
        d = cuda.to_device(x)
        double[4, 256](d)
        assert (d.copy_to_host() == 2 * x).all()
        assert (d[10:20].copy_to_host() == 2 * x[10:20]).all() and d[3] == 6
        d[5:8] = cuda.to_device(np.zeros(3, np.float32)); assert d.copy_to_host()[5:8].sum() == 0
        d[:4] = 7; assert (d.copy_to_host()[:4] == 7).all()
        grid = d.reshape(20, 50); assert (grid[:, 3].copy_to_host() == d.copy_to_host().reshape(20, 50)[:, 3]).all()
        same = cuda.device_array_like(d); same.copy_to_device(d); assert (same.copy_to_host() == d.copy_to_host()).all()
        stream = cuda.stream()
        with stream.auto_synchronize():
            e = cuda.to_device(x, stream=stream)
            double[4, 256, stream](e)
            back = e.copy_to_host(stream=stream)
        assert (back == 2 * x).all()
        start, end = cuda.event(), cuda.event()
        start.record(stream); double[4, 256, stream](e); end.record(stream)
        end.wait(stream); end.synchronize(); assert end.query() and start.elapsed_time(end) > 0
        cuda.synchronize()
        y = x.copy(); double[4, 256](y); assert (y == 2 * x).all()
        z = x.copy(); double[4, 256](cuda.In(z)); assert (z == x).all()
        with cuda.defer_cleanup():
            del d, e, same
        print("good")
    """)
    assert finished(process).endswith("good\n")
    assert "double" in process.stderr and "warp_instructions" in process.stderr


def test_every_kind_of_memory(run) -> None:
    process = run("""
        n = 500
        free, total = cuda.current_context().get_memory_info()
        managed = cuda.managed_array(n, np.float32); managed[:] = 3
        double[2, 256](managed); cuda.synchronize(); assert (managed == 6).all()
        mapped = cuda.mapped_array(n, np.float32); mapped[:] = 4
        double[2, 256](mapped); assert (mapped == 8).all()
        pinned = cuda.pinned_array(n, np.float32); pinned[:] = 5
        assert (cuda.to_device(pinned).copy_to_host() == 5).all()
        plain = np.full(n, 6, np.float32)
        with cuda.pinned(plain):
            assert (cuda.to_device(plain).copy_to_host() == 6).all()
        with cuda.mapped(plain) as m:
            double[2, 256](m)
        assert (plain == 12).all()

        class Foreign:
            def __init__(self, array): self.array = array
            @property
            def __cuda_array_interface__(self): return self.array.__cuda_array_interface__
        d = cuda.to_device(plain)
        view = cuda.as_cuda_array(Foreign(d)); double[2, 256](view); double[2, 256](Foreign(d))
        assert (d.copy_to_host() == 48).all()
        held = cuda.device_array(1 << 20, np.uint8)
        assert free - cuda.current_context().get_memory_info().free >= 1 << 20
        try:
            cuda.device_array(total, np.float64)
        except Exception as error:
            assert "OUT_OF_MEMORY" in str(error), error
        else:
            raise AssertionError("more than there is")
        print("good")
    """)
    assert finished(process).endswith("good\n")


def test_launches_in_every_syntax(run) -> None:
    process = run("""
        from numba import float32, int32, void
        x = cuda.to_device(np.ones(256, np.float32))
        stream = cuda.stream()
        double[1, 256](x); double[(1,), (256,)](x); double[1, 256, stream](x); double[1, 256, 0, 1024](x)
        double.forall(256)(x); double.forall(256, tpb=64, stream=stream)(x)
        double.specialize(x)[1, 256](x); double.configure(1, 256)(x)

        @cuda.jit("void(float32[::1])")
        def eager(x): x[cuda.threadIdx.x] += 1
        eager[1, 256](x)

        @cuda.jit([void(float32[::1], int32), void(float32[::1], float32)])
        def listed(x, a): x[cuda.threadIdx.x] += a
        listed[1, 256](x, np.int32(2)); listed[1, 256](x, np.float32(0.5))
        assert (x.copy_to_host() == 2.0**8 + 3.5).all(), x.copy_to_host()

        @cuda.jit
        def dynamic(out):
            s = cuda.shared.array(0, float32); i = cuda.threadIdx.x
            s[i] = i; cuda.syncthreads(); out[i] = s[255 - i]
        dynamic[1, 256, 0, 1024](x); assert (x.copy_to_host() == np.arange(256)[::-1]).all()

        @cuda.jit
        def whole(x):
            g = cuda.cg.this_grid(); i = cuda.grid(1)
            x[i] = i; g.sync()
            other = x[x.size - 1 - i]; g.sync(); x[i] = other
        whole[2, 128](x); assert (x.copy_to_host() == np.arange(256)[::-1]).all()
        assert whole.overloads[whole.signatures[0]].max_cooperative_grid_blocks(128) == 16 * 132
        assert min(double.get_regs_per_thread().values()) > 0
        print("good")
    """)
    assert finished(process).endswith("good\n")


def test_ufuncs_reductions_random_numbers_and_unusual_arguments(run) -> None:
    process = run("""
        from numba import guvectorize, vectorize
        from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32
        @vectorize(["float32(float32, float32)"], target="cuda")
        def add(a, b): return a + b
        a = np.arange(300, dtype=np.float32); assert (add(a, a) == 2 * a).all()
        assert add.reduce(a) == a.sum()
        assert cuda.reduce(lambda x, y: max(x, y))(a) == 299
        @guvectorize(["(float32[:], float32[:])"], "(n)->()", target="cuda")
        def total(x, out):
            s = 0.0
            for v in x: s += v
            out[0] = s
        assert np.allclose(total(a.reshape(3, 100)), a.reshape(3, 100).sum(1))
        states = create_xoroshiro128p_states(64, seed=1)
        @cuda.jit
        def draw(states, out): out[cuda.grid(1)] = xoroshiro128p_uniform_float32(states, cuda.grid(1))
        u = np.zeros(64, np.float32); draw[2, 32](states, u); assert 0.3 < u.mean() < 0.7 and u.std() > 0.1
        record = np.dtype([("a", np.int32), ("b", np.float64)], align=True)
        @cuda.jit
        def fields(rows, out, pair, z, half):
            i = cuda.threadIdx.x
            out[i] = rows[i].a + rows[i]["b"] + pair[0] * pair[1] + z.imag + half
        rows = np.array([(1, 0.5), (2, 0.25)], record); out = np.zeros(2)
        fields[1, 2](rows, out, (2, 10.0), 3 + 4j, np.float16(0.125)); assert (out == [25.625, 26.375]).all(), out
        table = np.arange(8, dtype=np.int64)
        @cuda.jit
        def constant(out): out[cuda.threadIdx.x] = cuda.const.array_like(table)[cuda.threadIdx.x]
        got = np.zeros(8, np.int64); constant[1, 8](got); assert (got == table).all()
        print("good")
    """)
    assert finished(process).endswith("good\n")


def test_the_device_is_the_one_that_was_asked_for(run) -> None:
    text = """
        device = cuda.get_current_device()
        print(*device.compute_capability, device.MULTIPROCESSOR_COUNT, device.name.decode() if isinstance(device.name, bytes) else device.name)
        assert cuda.is_available() and len(cuda.gpus) == 1 and cuda.current_context().device.id == 0
        assert cuda.detect()
        double[1, 32](np.ones(3, np.float32))
    """
    assert "8 0 108 NVIDIA A100" in finished(run(text, options=["--gpu", "a100_80gb"]))
    assert "12 0" in finished(run(text, options=["--gpu", "sm_120"]))


def test_the_program_sees_its_arguments_and_its_exit_code_is_returned(run) -> None:
    process = run(
        """
        import os
        print(__name__, sys.argv[1:], os.path.basename(sys.argv[0]), sys.path[0] == os.path.dirname(os.path.abspath(__file__)))
        double[1, 32](np.ones(3, np.float32))
        sys.exit(7)
        """,
        "--size", "3", "--gpu", "mine", "--simulate",
    )  # fmt: skip
    assert process.stdout == "__main__ ['--size', '3', '--gpu', 'mine', '--simulate'] script.py True\n"
    assert process.returncode == 7 and "double" in process.stderr
    assert "script.py, and nothing was simulated: options of gpusim run stand before it" in process.stderr


def test_an_exception_keeps_its_traceback_and_the_launches_are_still_listed(run) -> None:
    process = run("double[1, 32](np.ones(3, np.float32))\nraise ValueError('mine')\n")
    lines = process.stderr.splitlines()
    assert process.returncode == 1
    assert lines[0] == "Traceback (most recent call last):" and "script.py" in lines[1], process.stderr
    assert "ValueError: mine" in lines and any("double" in line for line in lines[lines.index("ValueError: mine") :])
    assert "runpy" not in process.stderr and "gpusim/" not in process.stderr


def test_a_store_outside_every_array_names_kernel_thread_and_line(run) -> None:
    process = run("""
        @cuda.jit
        def beyond(x):
            x[cuda.grid(1) + 100000] = 1
        d = cuda.to_device(np.zeros(10, np.float32))
        try:
            beyond[1, 32](d)
        except Exception as error:
            print("ILLEGAL_ADDRESS" in str(error))
        double[1, 32](d)  # the context is broken, as on a GPU
    """)
    assert process.stdout == "True\n" and process.returncode == 3
    (line,) = [line for line in process.stderr.splitlines() if line.startswith("error: ")]
    assert "beyond: block (0, 0, 0), thread (0, 0, 0)" in line and "outside every allocation" in line
    assert "script.py:15)" in line and "script.py:16)" in line  # the store, and where the nearest array was made


def test_a_module_runs_as_with_python_m(tmp_path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "tool.py").write_text(
        HEAD
        + "from . import __name__ as n\nx = np.ones(3, np.float32); double[1, 32](x)\nprint(n, __name__, sys.argv[1:], x)\n"
    )
    process = forked("run", "-m", "pack.tool", "-x", cwd=tmp_path)
    assert finished(process) == "pack __main__ ['-x'] [2. 2. 2.]\n"


def test_traces_are_kept_and_simulated_and_events_tell_predicted_time(run, tmp_path) -> None:
    text = """
        x = cuda.to_device(np.ones(20_000, np.float32))
        start, end = cuda.event(), cuda.event()
        start.record()
        for _ in range(3):
            double[79, 256](x)
        end.record()
        print(start.elapsed_time(end) * 1e3)
    """
    kept = ["--record", "kept", "--simulate", "-o", "launches.json", "--format", "json"]
    process = run(text, options=kept)
    told_us = float(finished(process))
    rows = json.loads((tmp_path / "launches.json").read_text())
    assert sum(row["launches"] for row in rows) == 3 and "grid" not in process.stderr
    assert told_us == pytest.approx(sum(row["time_us"] * row["launches"] for row in rows), rel=1e-5)
    assert rows[0]["cycles"] > rows[-1]["cycles"]  # the first launch finds cold caches
    index = json.loads((tmp_path / "kept" / "index.json").read_text())
    traces = [Trace.load(tmp_path / "kept" / entry["file"]) for entry in index["traces"]]
    assert [trace.launch.kernel for trace in traces] == ["double"] * 3
    assert traces[0].warp_instructions == rows[0]["warp_instructions"]
    assert any(name.endswith("script.py") for name in traces[0].program.files)

    again = run(text, options=kept)
    assert again.returncode == 2 and "not empty" in again.stderr
    assert finished(run(text, options=[*kept, "--force"]))


def test_launches_are_chosen_as_ncu_does_and_begin_cold_if_they_are_to(run, tmp_path) -> None:
    text = """
        @cuda.jit
        def add(x):
            i = cuda.grid(1)
            if i < x.size:
                x[i] += 1
        d = cuda.to_device(np.ones(20_000, np.float32))
        for _ in range(4):
            double[79, 256](d)
            add[79, 256](d)
        print(d.copy_to_host()[0])
    """
    chosen = [
        "--kernel",
        "^dou",
        "--launch-skip",
        "1",
        "--launch-count",
        "2",
        "--simulate",
        "--sample",
        "--check",
        "memory",
    ]
    process = run(text, options=[*chosen, "--cold", "-o", "rows.json", "--format", "json"])
    assert finished(process) == "31.0\n"
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["kernel"] for row in rows] == ["double", "add"] * 4
    cycles = [row["cycles"] for row in rows]
    assert [number for number, each in enumerate(cycles, 1) if each is not None] == [3, 5]
    # The second one's code is in the instruction caches already, its data are not.
    assert cycles[2] >= cycles[4] > 0.8 * cycles[2] and rows[2]["error_percent"] == 0
    assert [row["findings"] for row in rows] == [None, None, 0, None, 0, None, None, None]
    warm = run(text, options=[*chosen, "--why"])
    assert "L2 kept from launch to launch" in warm.stderr and "launch 3: double on h200" in warm.stderr, warm.stderr


def test_prints_beyond_the_buffer_are_dropped_and_counted(run) -> None:
    process = run("""
        from cuda.bindings import driver
        @cuda.jit
        def says(x):
            for i in range(5):
                print("i", i)
            x[0] = 3
        d = cuda.to_device(np.ones(1))
        limit = driver.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE
        assert driver.cuCtxSetLimit(limit, 32 * 70) == (0,)
        says[1, 32](d)
        assert driver.cuCtxSetLimit(limit, 1 << 20) == (0,)
        says[1, 1](d)
    """)
    assert finished(process).splitlines() == [f"i {i}" for i in range(2) for _ in range(32)] + ["i 2"] * 6 + [
        f"i {i}" for i in range(5)
    ]
    assert "gpusim: says: 90 prints were dropped, the buffer of 2,240 bytes was full" in process.stderr


def test_checks_find_what_a_launch_does_wrong(run) -> None:
    process = run(
        """
        @cuda.jit
        def beyond(x):
            x[cuda.grid(1) + 100000] = 1
        beyond[1, 32](cuda.to_device(np.zeros(10, np.float32)))
        """,
        options=["--check", "memory"],
    )
    assert process.returncode == 1 and "memcheck" in process.stderr and "script.py:15" in process.stderr, process.stderr


def test_options_that_say_nothing_are_refused(run) -> None:
    for options, says in (
        (["--cold"], "add --simulate"),
        (["--kernel", "x"], "nothing to choose launches for"),
        (["--simulate", "--kernel", "("], "not a regular expression"),
        (["--check", "speed"], "there is no check 'speed'"),
    ):
        process = run("print('ran')", options=options)
        assert process.returncode == 2 and not process.stdout and says in process.stderr


def test_threads_launch_side_by_side(run) -> None:
    process = run("""
        import threading
        results = {}
        def work(k):
            d = cuda.to_device(np.full(1000, k, np.float32), stream=cuda.stream())
            for _ in range(5): double[4, 256](d)
            results[k] = d.copy_to_host()
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert all((results[k] == 32 * k).all() for k in range(4)); print("good")
    """)
    assert finished(process) == "good\n"


def test_machine_code_of_cuda_core_runs_too(run) -> None:
    process = run(
        """
        from cuda.core import Device, LaunchConfig, ObjectCode, launch
        ptx = '''.version 8.0
        .target sm_75
        .address_size 64
        .visible .entry add_one(.param .u64 p, .param .f32 a) {
          .reg .b64 %a; .reg .f32 %v, %s;
          ld.param.u64 %a, [p]; ld.param.f32 %s, [a]; ld.global.f32 %v, [%a];
          add.f32 %v, %v, %s; st.global.f32 [%a], %v; ret; }'''
        cuda.current_context()
        Device(0).set_current()
        kernel = ObjectCode.from_ptx(ptx.encode()).get_kernel("add_one")
        d = cuda.to_device(np.ones(1, np.float32))
        stream = Device(0).create_stream()
        launch(stream, LaunchConfig(grid=1, block=1), kernel, d.device_ctypes_pointer.value, np.float32(1.5))
        stream.sync()
        print(d.copy_to_host())
        """
    )
    assert finished(process) == "[2.5]\n" and "add_one" in process.stderr


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("def broken(:\n", 1, "SyntaxError"),
        ("import cupy\n", 1, "wants proof that the driver is NVIDIA's"),
        (
            "from numba.cuda.cudadrv.driver import driver\ndriver.cuCheckpointProcessGetState(1)\n",
            1,
            "checkpoints of processes",
        ),
        ("double[1, 2048](np.ones(3, np.float32))\n", 2, "block x is 2048, at most 1024"),
        ("double[1, 32, 0, 1 << 16](np.ones(3, np.float32))\n", 2, "dynamic shared memory"),
        ("cuda.jit(launch_bounds=64)(double.py_func)[1, 128](np.ones(3, np.float32))\n", 2, "launch bounds allow 64"),
        ("sys.exit('gave up')\n", 1, "gave up"),
    ],
    ids=["syntax", "cupy", "checkpoint", "block", "shared", "bounds", "exit-text"],
)
def test_failures_say_in_one_line_what_is_wrong(run, text, code, says) -> None:
    process = run(text)
    assert process.returncode == code, process.stderr
    assert any(says in line for line in process.stderr.splitlines()), process.stderr
    launched = "double" in text
    assert ("no launch came to its end (1 refused) on h200" in process.stderr) == launched
    assert ("the program launched no kernel on h200" in process.stderr) != launched


def test_the_command_is_there_as_a_module() -> None:
    said = subprocess.run([sys.executable, "-m", "gpusim", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("gpusim, version ")


def test_what_cannot_be_run_is_refused_before_it_starts(run, tmp_path) -> None:
    missing = gpusim("nowhere.py", cwd=tmp_path)
    assert missing.returncode == 2 and missing.stderr == "error: there is no program nowhere.py\n"
    unknown = run("print('ran')", options=["--gpu", "h900"])
    assert unknown.returncode == 5 and not unknown.stdout and "h900" in unknown.stderr
    simulator = run("print('ran')", NUMBA_ENABLE_CUDASIM="1")
    assert simulator.returncode == 2 and not simulator.stdout and "NUMBA_ENABLE_CUDASIM" in simulator.stderr
    untimed = run("print('ran')", options=["--gpu", "sm_86", "--simulate"])
    assert untimed.returncode == 2 and "described GPU" in untimed.stderr
