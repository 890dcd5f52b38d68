"""Does an error of a case name the case, the value that it was given, and the user's own line?"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusim import cli
from gpusim.cases.names import general_names
from gpusim.cases.suite import find_kernel, make_case
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu

FILE = """\
import numpy as np
from numba import cuda


@cuda.jit(device=True)
def helper(x):
    return x + 1


@cuda.jit
def kernel(x):
    x[0] = helper(x[0])


def layernorm_case(rows, columns=8):
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    return kernel, 1, 32, (x,)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return str(path)


@pytest.mark.parametrize("value", ["x", "-3", "2.5"])
def test_a_value_that_a_library_refuses_is_named_with_the_users_own_line(file, value, capsys):
    assert cli.run(["simulate", f"{file}:layernorm_case:rows={value}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert f"mine.py:layernorm_case:rows={value}" in line and ".pyx" not in line
    assert "line 16 of mine.py" in line


def test_a_device_function_is_called_one(file, capsys):
    for command in (["simulate"], ["sass"]):
        assert cli.run([*command, f"{file}:helper"]) == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert "helper is a device function" in line and "is a kernel" not in line


@pytest.mark.parametrize("value", ["x", "-1"])
def test_every_kernel_of_the_suite_names_axis_and_value_that_it_refuses(value):
    gpu = load_gpu("h200")
    for name in general_names():
        for axis in find_kernel(name).default:
            try:
                make_case(name, {axis: value}, gpu, small=True)
            except UsageError as error:
                assert name in str(error) and axis in str(error) and value in str(error)
