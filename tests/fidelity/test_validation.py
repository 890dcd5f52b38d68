"""Does the validation bench predict what was measured: are its kernels right, its halves kept apart, its figures those
of the field?"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
import record_validation
import scipy.stats
import validate
from click.testing import CliRunner
from validation import own_compiler, sets
from validation.figures import figures, spearman
from validation.own_compiler import by_own_compiler
from validation.predict import Prediction, _cut, _part, _Runner, machine_of, predict
from validation.published import summed
from validation.recordings import NEVER, OTHER, SAME, Recording, digest_of, key_of, recordings
from validation.residuals import Residual

import gpusim
from gpusim.compare.error import ComparedPoint
from gpusim.errors import ToolchainError, UsageError
from gpusim.frontend.native import nvrtc
from workloads.external import product_families as families
from workloads.external.families import FAMILIES, file_of

CONVOLUTION = dict(zip(families._CONVOLUTION, (16, 2, 1, 2, 1, 1), strict=True))


def test_interrupting_the_bench_while_it_loads_shows_no_traceback(tmp_path: Path) -> None:
    # A module that stands for one of those that it loads sends the signal.
    (tmp_path / "tabulate.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, validate.__file__, "--list"], capture_output=True, text=True, timeout=50, check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(validate.__file__).parents[1]}"},
    )  # fmt: skip
    assert done.returncode == -2 and not done.stderr


def run_block(timed: families.Timed, depth: int | None = None, fill: bool = True) -> tuple:
    """The arguments after block 0 ran, its float arrays filled at random before."""
    args = timed.arguments(depth)
    random = np.random.default_rng(3)
    for array in args if fill else ():
        if isinstance(array, np.ndarray) and array.dtype != np.int64:
            array[...] = random.random(array.shape, np.float32).astype(array.dtype)
    before = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)
    gpusim.capture(timed.kernel, tuple(1 for _ in timed.grid), timed.block, args, gpu="a100_80gb")
    return before, args


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("read_only", "padding"), [(0, 0), (1, 1)])
def test_a_block_of_the_convolution(tmp_path: Path, read_only: int, padding: int) -> None:
    timed = families.convolution(CONVOLUTION | {"read_only": read_only, "use_padding": padding})
    weights = np.random.default_rng(0).random((15, 15), np.float32)
    text = timed.kernel.source.read_text()
    given = "weights[33 * 33] = {" + ", ".join(f"{w:.9g}f" for w in weights.ravel()) + "};"
    (tmp_path / "c.cu").write_text(text.replace("weights[33 * 33];", given))
    kernel = families.CudaKernel(tmp_path / "c.cu", timed.kernel.entry)
    output, image = timed.arguments(None)
    image[:] = np.random.default_rng(1).random(image.shape, np.float32)
    gpusim.capture(kernel, (1, 1), timed.block, (output, image), gpu="a100_80gb")
    high, wide = 2 * 2, 16
    windows = np.lib.stride_tricks.sliding_window_view(image[: high + 14, : wide + 14].astype(np.float64), (15, 15))
    np.testing.assert_allclose(output[:high, :wide], (windows * weights).sum(axis=(2, 3)), rtol=1e-4)
    assert not output[high:].any() and not output[:, wide:].any()


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("rung", "tile"), [("1", 32), ("2", 32), ("3", 32), ("6", 128)])
def test_a_block_of_a_rung_to_some_depth(rung: str, tile: int) -> None:
    timed = families.sgemm_ladder({"rung": rung, "size": 128})
    depth = 64
    before, after = run_block(timed, depth)
    a, b, old = (before[i].astype(np.float64) for i in (3, 4, 6))
    wanted = 0.5 * a[:, :depth] @ b[:depth] + 3.0 * old
    np.testing.assert_allclose(after[6][:tile, :tile], wanted[:tile, :tile], rtol=1e-5)
    assert timed.depth == 128 and timed.arguments(None)[1] == 128


@pytest.mark.by_day(2)
@pytest.mark.parametrize("rung", families._TENSOR_RUNGS)
def test_a_block_of_a_rung_on_tensor_cores(rung: str) -> None:
    _, tile, transposed = families._TENSOR_RUNGS[rung]
    timed = families.mma_ladder({"rung": rung, "size": 128})
    (a, b, *_), (_, _, c, *_) = run_block(timed, 64)
    wide = a.astype(np.float64)[:, :64] @ (b[:, :64].T if transposed else b[:64]).astype(np.float64)
    np.testing.assert_allclose(c[:tile, :tile], wide[:tile, :tile], rtol=1e-5)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("step", families._STEPS)
def test_a_block_of_a_step_on_tensor_cores(step: str) -> None:
    (a, b, *_), (_, _, c, *_) = run_block(families.mma_steps({"step": step, "size": 128}), 64)
    wanted = a.astype(np.float64)[:, :64] @ b[:64].astype(np.float64)
    np.testing.assert_allclose(c, wanted, rtol=1e-5)


def test_a_warm_product_that_fits_in_l2_follows_itself() -> None:
    spec = machine_of("rtx_pro_6000", [])
    row = {"step": "vectors", "size": "512"}
    warm, cold = (predict("mma_steps", row, spec, "depth", 1e5, None, cache) for cache in ("warm", "swept"))
    assert warm.time_us < 0.9 * cold.time_us
    assert warm.scaled == "all blocks, depths 128 and 384 of 512"
    large = families.mma_steps(row | {"size": "4096"})
    assert [_Runner(large, machine_of(gpu, [])).fits_in_l2() for gpu in ("rtx_pro_6000", "rtx4090")] == [True, False]


def test_a_row_of_each_triton_kernel() -> None:
    pytest.importorskip("triton", reason="pip install 'gpusim[triton]'")
    row = {"rows": "3", "columns": "96", "vocabulary": "7", "dtype": "float32"}

    def run(kernel: str) -> tuple:
        return run_block(families.triton_rows(row | {"kernel": kernel}))

    _, (y, _, x, _, weight, rstd, *_) = run("rms_norm")
    scale = 1 / np.sqrt((x[0].astype(np.float64) ** 2).mean() + 1e-6)
    np.testing.assert_allclose(y[0], x[0] * scale * weight, rtol=1e-5)
    np.testing.assert_allclose(rstd[0], scale, rtol=1e-5)
    _, (y, _, x, _, weight, bias, *_) = run("layer_norm")
    normal = (x[0] - x[0].mean()) / np.sqrt(x[0].astype(np.float64).var() + 1e-6)
    np.testing.assert_allclose(y[0], normal * weight + bias, rtol=1e-4, atol=1e-5)
    _, (table, index, out, *_) = run("embedding")
    np.testing.assert_array_equal(out, table[index])
    before, after = run("rope")
    half, q, turned, cos, sin = 1, before[0][0], after[0][0], before[4][0], before[6][0]
    np.testing.assert_allclose(
        turned[:, :half], q[:, :half] * cos[:half] - q[:, half : 2 * half] * sin[:half], rtol=1e-5, atol=1e-6
    )


def test_halves_are_kept_apart_and_samples_nest() -> None:
    for each in sets.load_sets():
        halves = {half: [row for row in each.rows if row.half == half] for half in (sets.LEARN, sets.FINAL)}
        assert all(halves.values())
        ten, twenty = (sets.sample(halves[sets.LEARN], count, each.entry["strata"]) for count in (10, 20))
        assert twenty[: len(ten)] == ten and len(set(map(id, twenty))) == len(twenty)
    (tuned,) = sets.load_sets(["convolution_a100"])
    assert len(tuned.rows) + tuned.left_out == 2412
    half_of: dict[tuple, set[str]] = {}
    for row in tuned.rows:
        half_of.setdefault(tuple(row.values[n] for n in families._CONVOLUTION if n != "read_only"), set()).add(row.half)
    assert all(len(found) == 1 for found in half_of.values())
    assert 0.4 < sum(row.half == sets.LEARN for row in tuned.rows) / len(tuned.rows) < 0.6
    # Tiles are the strata: 16 rows have 16 of them.
    assert (
        len(
            {
                (r.values["tile_size_x"], r.values["tile_size_y"])
                for r in sets.sample(tuned.rows, 16, tuned.entry["strata"])
            }
        )
        == 16
    )


def test_a_damaged_table_and_an_unknown_set_are_refused(tmp_path: Path) -> None:
    for path in sets.FOLDER.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "deepgemm_h800.csv").write_text("m,n,k,measured_us,noise_percent\n1,1,1,1,\n")
    assert sets.load_sets(["sgemm_ladder_a6000"], tmp_path)
    with pytest.raises(UsageError, match=r"deepgemm_h800.csv is not the table that the manifest names"):
        sets.load_sets((), tmp_path)
    done = CliRunner().invoke(validate.main, ["sgemm_ladder"])
    assert done.exit_code == 2 and "there is no set 'sgemm_ladder'; did you mean sgemm_ladder_a6000?" in done.output
    listed = json.loads(CliRunner().invoke(validate.main, ["--list", "--format", "json"]).output)
    assert {each["set"] for each in listed} >= {"convolution_a100", "deepgemm_h800"}


@pytest.mark.parametrize(("broken", "code"), [({sets.FINAL}, 0), ({sets.LEARN}, 0), ({sets.LEARN, sets.FINAL}, 3)])
def test_a_half_of_which_no_row_can_be_predicted_stands_beside_the_other(
    monkeypatch: pytest.MonkeyPatch, broken: set[str], code: int
) -> None:
    (ladder,) = sets.load_sets(["sgemm_ladder_a6000"])
    half_of = {row.identity: row.half for row in ladder.rows}
    made = Prediction(100.0, None, "", "compute", "FMA pipe", "", "FMA pipe", 50.0, {}, 32, 0, 1, "warps", 1, 1.0)

    def run(jobs: Sequence[validate.Job], _: int) -> Iterator[validate.Done]:
        for job in jobs:
            fails = half_of[job.identity] in broken
            yield validate.Done(job, None if fails else made, "CompileError: no compiler" if fails else "", 0.0)

    monkeypatch.setattr(validate, "run", run)
    for form in ("table", "json", "csv"):
        done = CliRunner().invoke(validate.main, [ladder.name, "--final", "--format", form])
        assert done.exit_code == code, done.output
        for half in (sets.LEARN, sets.FINAL):
            said = f"{ladder.name}, {half}: no row could be predicted, 2 failed" in done.output
            assert said == (half in broken)


def test_figures_by_hand() -> None:
    found = figures(
        ["a", "b", "c", "d"], [11.0, 8.0, 30.0, 50.0], [10.0, 16.0, 20.0, 40.0], [1.0, None, 3.0, None], True
    )
    assert found.mape_percent == pytest.approx((10 + 50 + 50 + 25) / 4)
    assert found.signed_percent == pytest.approx((10 - 50 + 50 + 25) / 4)
    assert (found.worst_row, found.worst_percent, found.noise_percent) == ("b", -50, 2)
    assert found.regret_percent == pytest.approx(60)  # b is predicted best, and takes 16 where a takes 10
    assert found.rank == pytest.approx(0.8)
    assert found.regret_of_five_percent is None  # of four rows five are no choice
    # The one predicted best takes three times the best one's time, the fastest of five twice, and the sixth would be
    # it.
    measured = [30.0, 25.0, 20.0, 40.0, 50.0, 10.0, *[60.0] * 14]
    many = figures([""] * 20, list(range(1, 21)), measured, [None] * 20, True)
    assert (many.regret_percent, many.regret_of_five_percent) == (pytest.approx(200), pytest.approx(100))
    few = figures(["a", "b"], [1.0, 2.0], [2.0, 1.0], [None, None], True)
    assert (few.rank, few.regret_percent, few.noise_percent) == (None, None, None)


def test_published_points_are_summed_up_by_what_they_were_to_the_description() -> None:
    def point(series: str, at: int, simulated: float, fitted: bool) -> ComparedPoint:
        return ComparedPoint("t4", series, f"n={at}", "GB/s", simulated, float(at), fitted)

    rising = [point("read", at, 1.1 * at, True) for at in (1, 2, 3)]
    falling = [point("write", at, 4.0 - at, True) for at in (1, 2, 3)]
    fitted, held_out = summed([*rising, *falling, point("copy", 4, 3.0, False)])
    assert (fitted["half"], fitted["rows"], fitted["rank"]) == ("fitted", 6, pytest.approx(0.0))  # +1 and -1
    assert (held_out["half"], held_out["mape_percent"], held_out["rank"]) == ("held out", 25.0, None)
    assert summed(rising)[1]["rows"] == 0


@pytest.mark.parametrize("values", [[1, 2, 2, 5, 3], [4, 4, 1, 9, 9], [5, 4, 3, 2, 1]])
def test_spearman_is_scipys(values: list[int]) -> None:
    other = np.array([3.0, 1.0, 1.0, 7.0, 2.0])
    assert spearman(np.array(values, float), other) == pytest.approx(scipy.stats.spearmanr(values, other).statistic)


def test_a_grid_is_cut_to_the_share_of_its_sms() -> None:
    for size in (7, 64, 342, 4096):
        for share in (0.01, 0.1, 0.4):
            sms, along = _cut(size, 108, share)
            assert 2 <= sms <= 108 and 1 <= along <= size
            if size >= 64:
                assert along / size == pytest.approx(sms / 108, rel=0.03)


def test_a_part_of_a_products_grid_has_as_many_blocks_as_are_resident() -> None:
    for blocks in (15, 28, 168, 336):
        wide, high = _part((128, 128), blocks)
        assert blocks * 0.9 <= wide * high <= blocks and wide <= 3 * high
    assert _part((4, 100), 40) == (4, 10)


def test_behind_a_flush_a_launch_pays_for_the_lines_that_are_written_back(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "copy.cu").write_text(
        "__global__ void copy(float4 *to, const float4 *from) { int i = blockIdx.x * 256 + threadIdx.x; to[i] = from[i]; }"
    )

    def copied(row: families.Row, checkout: Path | None) -> families.Timed:
        blocks = 128
        arrays = tuple(np.zeros((blocks * 256, 4), np.float32) for _ in range(2))
        kernel = families.CudaKernel(tmp_path / "copy.cu", "copy")
        return families.Timed(kernel, (blocks,), (256,), lambda depth: arrays, (kernel.source,))

    monkeypatch.setitem(FAMILIES, "copy", copied)
    spec = machine_of("t4", [])
    empty, dirty = (predict("copy", {}, spec, "none", 1e6, None, cache) for cache in ("cold", "flushed"))
    written_back_us = 1e-3 * 2 * 128 * 256 * 16 / spec.dram.peak_bytes_per_ns  # a line for each that is read or written
    assert dirty.time_us - empty.time_us == pytest.approx(written_back_us, rel=0.5)


def test_a_checkout_is_compiled_as_it_was_measured(tmp_path: Path) -> None:
    timed = families.convolution(CONVOLUTION, tmp_path)
    assert timed.sources == (tmp_path / "convolution_milo.cu",)
    assert {"-Dblock_size_x=16", "-Dtile_size_y=2", "-Duse_shmem=1", "-Dfilter_width=15", "-std=c++11"} <= set(
        timed.options
    )
    assert validate.checkouts_of([f"convolution_a100={tmp_path}"], ["convolution_a100"]) == {
        "convolution_a100": str(tmp_path)
    }
    with pytest.raises(UsageError, match="write SET=DIR, of a set that is asked for: convolution_a100"):
        validate.checkouts_of(["elsewhere=/"], ["convolution_a100"])
    with pytest.raises(UsageError, match="is no folder"):
        validate.checkouts_of([f"convolution_a100={tmp_path / 'no'}"], ["convolution_a100"])


def test_a_set_whose_compiler_is_not_there_says_what_to_install(monkeypatch) -> None:
    timed, spec = families.convolution(CONVOLUTION), machine_of("a100_pcie_40gb", [])
    assert by_own_compiler(timed, "", spec) is timed
    own_compiler._library.cache_clear()

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(own_compiler, "distribution", missing)
    monkeypatch.setenv("GPUSIM_CACHE_DIR", "")
    package = "nvidia-cuda-nvrtc-cu12==12.3.107"
    with pytest.raises(ToolchainError, match=rf'pip install "{package}", or --compiler installed'):
        by_own_compiler(timed, package, spec)


def test_a_second_release_of_a_compiler_lies_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "nvidia-cuda-nvrtc-cu12==12.8.93"
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    own_compiler._library.cache_clear()
    with pytest.raises(ToolchainError, match=rf"--target {tmp_path}/compilers/{package}, or --compiler installed"):
        own_compiler._library(package)
    library = tmp_path / "compilers" / package / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    loaded: list[str] = []
    monkeypatch.setattr(own_compiler.ctypes, "CDLL", loaded.append)
    own_compiler._library(package)
    own_compiler._library.cache_clear()
    assert loaded == [str(library)]


def test_the_compiler_of_a_set_does_not_become_that_of_all_others(tmp_path: Path) -> None:
    """In a process that a set with a compiler of its own is the first to compile in: the flush of L2 and sets that name
    no compiler came out by that one, by as much as 0.5 % another time than behind other sets."""
    package = "nvidia-cuda-nvrtc-cu12==12.8.93"
    beside = tmp_path / "compilers" / package / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
    beside.parent.mkdir(parents=True)
    beside.symlink_to(nvrtc.library())  # any other place will do: a process opens it under the name that it is given
    program = (
        "import sys; sys.path[:] = sys.argv[2:]\n"
        "from validation import own_compiler\n"
        "from gpusim.frontend.native import nvrtc\n"
        "own_compiler._library(sys.argv[1])\n"
        "print(nvrtc.library())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, package, *sys.path], capture_output=True, text=True, check=False,
        env=os.environ | {"GPUSIM_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (ran.stdout.strip(), ran.stderr) == (nvrtc.library(), "")


def test_a_set_is_compiled_by_the_compiler_of_its_time() -> None:
    (tuned,) = sets.load_sets(["convolution_a100"])
    name, _, version = tuned.entry["nvrtc"].partition("==")
    try:
        if distribution(name).version != version:
            pytest.skip(f"pip install {tuned.entry['nvrtc']}")
    except PackageNotFoundError:
        pytest.skip(f"pip install {tuned.entry['nvrtc']}")
    spec = machine_of("a100_pcie_40gb", [])
    timed = by_own_compiler(families.convolution(CONVOLUTION), tuned.entry["nvrtc"], spec)
    trace = gpusim.capture(timed.kernel, (1, 1), timed.block, timed.arguments(None), gpu=spec)
    assert trace.launch.registers_per_thread and "convolution" in trace.launch.kernel


def test_a_recording_says_whether_the_source_is_still_the_one_that_made_it() -> None:
    dear, cheap = (
        Residual("published", kind, "a40", "l1_read", "n=1", "L1", 1, "", 1.0, cpu_s)
        for kind, cpu_s in (("fitted", 9.0), ("datasheet", 2.5))
    )
    known = {" ".join(filter(None, key_of(dear))): digest_of(key_of(dear))}
    first, second, *never = recordings([dear, cheap], known)
    assert (first.kind, first.state, first.cpu_s) == ("datasheet", OTHER, 2.5)
    assert (second.kind, second.state, second.unknown) == ("fitted", SAME, 0)
    assert {each.state for each in never} == {NEVER} and "liger_forward_a100" in {each.source for each in never}
    assert digest_of(key_of(dear)) != digest_of(key_of(cheap))  # another description


def test_a_set_s_recording_is_of_the_file_that_makes_its_launches() -> None:
    for family, maker in FAMILIES.items():
        assert getattr(inspect.getmodule(maker), "__file__", "") == str(file_of(family)), family


def test_a_recording_of_which_rows_cannot_be_predicted_stays_as_it_was(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("a recording was replaced by fewer rows")

    old = Recording("convolution_a100", "datasheet", "a100_pcie_40gb", "learn", 2, 0.0, 2, 20.0, "other source")
    monkeypatch.setattr(record_validation, "made_anew", lambda *_: iter([]))
    monkeypatch.setattr(record_validation, "save_residuals", refuse)
    assert record_validation.record([old], minutes=1.0) == [old]


def test_a_set_s_figures_are_of_all_its_recorded_rows_also_of_a_half_that_was_recorded_before() -> None:
    def made(gpu: str, half: str, rows: int, state: str) -> Recording:
        return Recording("textbook_rtx3080", "datasheet", gpu, half, rows, 0.0, 0, 1.0, state)

    known = [made("rtx3090", "learn", 20, SAME), made("rtx3080", "learn", 3, SAME), made("rtx3090", "final", 20, OTHER)]
    never = made("rtx4090", "final", 40, NEVER)
    assert record_validation.most_rows([*known, never], {"textbook_rtx3080"}) == {"textbook_rtx3080": 23}
    assert record_validation.most_rows(known, {"filters_rtx3060"}) == {}


def test_rows_whose_cost_is_not_known_are_expected_to_cost_as_much_as_others() -> None:
    rows = [
        Residual(source, "datasheet", gpu, "l1_read", f"n={n}", "L1", 1, "", 1.0, cpu_s)
        for source, gpu, costs in (("published", "a40", (2.0, 4.0)), ("published", "l40", (0.0, 5.0)), ("sgemm_ladder_a6000", "rtx_a6000", (0.0,)))
        for n, cpu_s in enumerate(costs)
    ]  # fmt: skip
    expected = {each.gpu: each.expected_s for each in recordings(rows, {}) if each.state == OTHER}
    # Of published rows 11 / 3 s; of a set of which nothing is known as much as all known rows.
    assert expected == pytest.approx({"a40": 6.0, "l40": 8.7, "rtx_a6000": 3.7})


def test_a_dear_recording_of_unknown_cost_does_not_begin_without_minutes_for_it(monkeypatch, capsys) -> None:
    said: list[str] = []
    monkeypatch.setattr(record_validation, "say", said.append)
    monkeypatch.setattr(record_validation, "made_anew", lambda *_: pytest.fail("it was begun"))
    old = Recording("convolution_a100", "datasheet", "a100_pcie_40gb", "learn", 64, 0.0, 64, 176.0, OTHER)
    assert record_validation.record([old], minutes=1.0) == [old] and not said


def test_what_is_stale_is_printed_with_what_it_costs(monkeypatch) -> None:
    row = Residual("published", "fitted", "a40", "l1_read", "n=1", "L1", 1, "", 1.0, 9.0)
    monkeypatch.setattr(record_validation, "load_residuals", lambda: [row])
    key = " ".join(filter(None, key_of(row)))
    for digest, code in (("0", 1), (digest_of(key_of(row)), 0)):
        monkeypatch.setattr(record_validation, "known_digests", lambda digest=digest: {key: digest})
        monkeypatch.setattr(record_validation, "known_probes", dict)
        ran = CliRunner().invoke(record_validation.main, ["published", "--stale"])
        assert ran.exit_code == code and ("other source" in ran.output) == bool(code)
