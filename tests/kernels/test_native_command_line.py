"""A kernel of CUDA C++, PTX or machine code on the command line: its launch in options, its code listed and surveyed,
mistakes told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fat_binaries import SOURCE, archive, container, cubin_of, host_elf

from gpusim import cli
from gpusim.cases.native_arguments import parse_kernel_argument
from gpusim.cases.native_cases import make_native_case
from gpusim.cases.native_names import split_native
from gpusim.cases.requests import split_request, sweep_points
from gpusim.cases.suite import capture_case, complete_shape, find_kernel
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu

LAUNCH = [
    "--grid",
    "1",
    "--block",
    "32",
    "--arg",
    "int:20",
    "--arg",
    "float:2",
    "--arg",
    "float[32]=arange",
    "--arg",
    "float[32]=1",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.cu").write_text(SOURCE)
    fat = container((2, 80, 0, cubin_of("sm_80")), (2, 90, 0x8000, cubin_of("sm_90a")))
    (tmp_path / "program").write_bytes(host_elf({".nv_fatbin": fat}))
    (tmp_path / "libmy.a").write_bytes(archive({"my.o": host_elf({".nv_fatbin": fat})}))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("my.cu:saxpy", ("my.cu", "saxpy", "")),
        ("a/b.cu:ns::k<float, 4>:grid=4,block=2x2", ("a/b.cu", "ns::k<float, 4>", "grid=4,block=2x2")),
        ("libfoo.so.1.2:_Z1kv", ("libfoo.so.1.2", "_Z1kv", "")),
        ("x.ptx:k:arg0=int[4]=arange", ("x.ptx", "k", "arg0=int[4]=arange")),
        ("./program:k", ("./program", "k", "")),
        ("saxpy:n=4", None),
        ("my.py:case:n=4", None),
        ("nothing:k", None),
    ],
)
def test_a_kernel_of_a_file_is_told_from_its_launch(text: str, parts: tuple | None, folder: Path) -> None:
    assert split_native(text) == parts


def test_a_launch_is_a_shape_that_can_be_swept() -> None:
    name, shape = split_request("my.cu:k<1,2>:grid=4,block=32,64,arg0=float[2,3]=1,arg1=null")
    assert name == "my.cu:k<1,2>"
    assert shape == {"grid": ["4"], "block": ["32", "64"], "arg0": ["float[2,3]=1"], "arg1": ["null"]}
    assert [point.values for point in sweep_points("my.cu:k:grid=4,block=32,64")] == [{"block": "32"}, {"block": "64"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("int:1Ki", np.int32(1024)), ("float:2", np.float32(2)), ("double:-1e3", np.float64(-1000)), ("half:0.5", np.float16(0.5)),
        ("unsigned long long:3", np.uint64(3)), ("size_t:3", np.uint64(3)), ("bool:true", np.bool_(True)), ("float:inf", np.float32("inf")),
        ("float[4]", np.zeros(4, np.float32)), ("u8[2,2]=7", np.full((2, 2), 7, np.uint8)), ("long[3]=arange", np.arange(3)),
        ("bool[2]=true", np.ones(2, bool)),
    ],
)  # fmt: skip
def test_an_argument_has_the_type_that_it_says(text: str, value: np.ndarray) -> None:
    made = parse_kernel_argument(text)
    assert made.dtype == value.dtype and np.array_equal(made, value)


def test_random_contents_are_their_seed_s_and_usable_as_indices() -> None:
    floats, indices = parse_kernel_argument("float[1000]=random:7"), parse_kernel_argument("int[1000]=random:7")
    assert np.array_equal(floats, parse_kernel_argument("float[1000]=random:7"))
    assert np.array_equal(parse_kernel_argument("float[9]=random"), parse_kernel_argument("float[9]=random:0"))
    with pytest.raises(
        ValueError, match=r"ones is no number: an array begins with a number, arange, random or random:SEED"
    ):
        parse_kernel_argument("float[9]=ones")
    assert not np.array_equal(floats, parse_kernel_argument("float[1000]=random:8"))
    assert 0 <= floats.min() < 0.1 and 0.9 < floats.max() < 1 and indices.min() >= 0 and 500 < indices.max() < 1000
    assert parse_kernel_argument("char[999]=random:1").max() < 128 and parse_kernel_argument("null") is None


@pytest.mark.parametrize("name", ["my.cu:saxpy", "program:saxpy", "libmy.a:saxpy"])
def test_the_launch_computes_what_its_arguments_say(name: str, folder: Path) -> None:
    spec = load_gpu("h200")
    asked = {
        "block": "32",
        "grid": "1",
        "arg0": "int:20",
        "arg1": "float:2",
        "arg2": "float[32]=arange",
        "arg3": "float[32]=1",
    }
    shape = complete_shape(name, asked, spec)
    assert list(shape) == ["grid", "block", "shared_bytes", "arg0", "arg1", "arg2", "arg3"]
    case = make_native_case(name, shape)
    capture_case(case, spec)
    y = case.launches[0].args[3]
    assert y.tolist() == [2 * i + 1 if i < 20 else 1 for i in range(32)]


def test_capture_and_simulate_take_the_launch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["capture", "program:saxpy", *LAUNCH, "-o", "out.trace"]) == 0
    assert cli.run(["simulate", "out.trace", "--format", "json"]) == 0
    assert capsys.readouterr().out
    assert cli.run(["simulate", "my.cu:saxpy", *LAUNCH, "--block", "32,64", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["block"] for row in rows] == ["32", "64"] and all(row["cycles"] > 0 for row in rows)


def test_code_is_listed_and_surveyed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["sass", "my.cu:saxpy", "--gpu", "b200"]) == 0
    assert "FFMA" in capsys.readouterr().out
    assert cli.run(["sass", "program:scale<double>", "--gpu", "h200"]) == 0
    assert "DMUL" in capsys.readouterr().out
    (folder / "k.ptx").write_text(".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n")
    for file, options, kernels in (
        ("program", [], {"sm_80": 2, "sm_90": 2}),
        ("libmy.a", ["--arch", "sm_86"], {"sm_80": 2}),
        ("my.cu", ["--arch", "sm_100"], {"sm_100": 2}),
        ("my.cu:saxpy", ["--arch", "sm_100"], {"sm_100": 1}),
        ("k.ptx", ["--gpu", "b200"], {"sm_100": 1}),
    ):
        assert cli.run(["sass", "survey", file, *options, "--format", "json"]) == 0
        totals = json.loads(capsys.readouterr().out)["totals"]
        assert {row["architecture"]: row["kernels"] for row in totals} == kernels, file


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("simulate my.cu", 2, "my.cu is a file of kernels: name one of them, my.cu:KERNEL"),
        ("sass program", 2, "program is a file of kernels"),
        ("simulate my.cu:saxpy", 2, "needs its launch: give --grid 4 --block 256"),
        ("simulate my.cu:saxpy", 2, "--arg int:1024 --arg float:2 --arg float[1024] --arg float[1024]; "),
        (
            "simulate my.cu:saxpy",
            2,
            "'my.cu:saxpy:grid=4,block=256,arg0=int:1024,arg1=float:2,arg2=float[1024],arg3=float[1024]'",
        ),
        ("simulate my.cu:saxpi --grid 4", 2, "my.cu itself has no kernel saxpi; it has "),
        ("simulate my.cu:saxpy --grid 1 --block 2 --arg flaot:1", 2, "did you mean float"),
        ("compare my.cu:saxpy", 3, "measure it on a GPU (gpusim measure"),
        ("simulate my.cu:saxpy --grid 4x --block 2", 2, "grid=4x: "),
        ("simulate my.cu:saxpy --grid 1 --block 2 --arg float", 2, "arg0=float: write TYPE:VALUE"),
        ("simulate my.cu:saxpy --grid 1 --block 2 --arg quad:1", 2, "there is no type quad"),
        ("simulate my.cu:saxpy --grid 1 --block 2 --arg float:1e300", 2, "1e300 does not fit in float32"),
        ("simulate my.cu:saxpy --grid 1 --block 2 --arg char:300", 2, "arg0=char:300: 300 does not fit in int8"),
        ("simulate my.cu:saxpy --grid 1 --block 2 --arg int:1", 2, "takes 4 arguments (u32, f32, u64, u64), not 1"),
        ("simulate my.cu:saxpy:grid=1,block=2,arg1=int:1", 2, "arg1 is given, but not arg0"),
        ("simulate saxpy --grid 3", 2, "says the launch of a kernel FILE:KERNEL, and saxpy is none"),
        ("simulate no.cu:saxpy --grid 1 --block 1", 2, "there is no file no.cu"),
        ("capture program:nope --grid 1 --block 1 -o x.trace", 3, "has no kernel nope; it has"),
        ("simulate my.cu:saxpy my.cu:saxpy --grid 1", 2, "--grid says a launch of one kernel, and 2 are named"),
        ("sass survey nothing.fatbin", 2, "there is no file nothing.fatbin"),
        ("explore my.cu:saxpy", 2, "my.cu:saxpy"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(
    words: str, code: int, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words.split()) == code
    captured = capsys.readouterr()
    assert captured.out == "" and said in captured.err
    assert captured.err.count("error: ") == 1 and captured.err.endswith("\n")


def test_an_array_that_no_machine_holds_is_refused(folder: Path) -> None:
    shape = {"grid": "1", "block": "1", "arg0": "int[99999999999999]"}
    with pytest.raises((UsageError, MemoryError)):
        make_native_case("my.cu:saxpy", complete_shape("my.cu:saxpy", shape))


def test_a_launch_may_be_formulas_of_its_own_axes(folder: Path) -> None:
    asked = {
        "n": "1Ki",
        "T": "double",
        "block": "64",
        "grid": "cdiv(n,block)x2",
        "arg0": "{T}[n,2]=1",
        "arg1": "{T}:3",
        "arg2": "int:n/2",
    }
    shape = complete_shape("my.cu:scale<{T}>", asked)
    assert shape["n"] == "1024"
    launch = make_native_case("my.cu:scale<{T}>", shape).launches[0]
    assert (launch.grid, launch.block, launch.kernel.entry) == ((16, 2), (64,), "scale<double>")
    assert launch.args[0].shape == (1024, 2) and launch.args[0].dtype == np.float64 and launch.args[2] == 512
    with pytest.raises(UsageError, match="has no axis 'm'"):
        complete_shape("my.cu:saxpy", {"grid": "1", "block": "1", "m": "3"})
    with pytest.raises(UsageError, match="grid=k: .*formulas may name n"):
        complete_shape("my.cu:saxpy", {"grid": "k", "block": "n", "n": "3"})


def test_axes_with_several_values_can_be_searched(folder: Path) -> None:
    name = "my.cu:saxpy:n=1..2Ki,block=64,128,grid=cdiv(n,block),arg0=int:n,arg1=float:2,arg2=float[n],arg3=float[n]"
    entry = find_kernel(name)
    assert (
        entry.axes["block"] == (64, 128) and entry.bounds == {"n": range(1, 2049)} and set(entry.axes) == {"n", "block"}
    )
    case = entry.make(n=100, block=64)
    assert case.launches[0].grid == (2,) and case.launches[0].args[2].shape == (100,)
    assert split_request(f"{name}:n=100,block=64")[1]["n"] == ["100"]
    with pytest.raises(UsageError, match="nothing to vary"):
        find_kernel("my.cu:saxpy:grid=1,block=32")


def test_compiler_options_reach_the_compiler(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "size.h").write_text("#pragma once\n")
    (folder / "sized.cu").write_text('#include "size.h"\n__global__ void fill(int *x) { *x = SIZE; }\n')
    options = ["--include", "inner", "--option=-DSIZE=7", "--std", "c++20"]
    assert cli.run(["sass", "sized.cu:fill", *options]) == 0 and "STG" in capsys.readouterr().out
    assert cli.run(["sass", "survey", "sized.cu", "--arch", "sm_90", "--format", "json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["totals"][0]["kernels"] == 1
    shape = {"grid": "1", "block": "1", "include": "inner", "options": "-DSIZE=7", "arg0": "int[1]"}
    case = make_native_case("sized.cu:fill", complete_shape("sized.cu:fill", shape))
    capture_case(case, load_gpu("h200"))
    assert case.launches[0].args[0][0] == 7
