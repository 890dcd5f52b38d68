"""A kernel in a file of the user's own goes where the suite's go, and each mistake in it is answered in one line."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("numba.cuda", reason="needs the CUDA wheels")

from gpusim import cli
from gpusim.io import progress

FILE = """
import numpy as np
from numba import cuda, float32

from beside import FACTOR


@cuda.jit
def scale(x, a):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= a


def scale_case(n=1000, block=128, small=False):
    return scale, -(-n // block), block, (np.ones(8 if small else n, np.float32), np.float32(FACTOR))


def two_launches(n=256):
    x = np.ones(n, np.float32)
    return [(scale, 2, 128, (x, 2.0)), (scale, 2, 128, (x, 3.0), 1024)]


class Checked:
    def __init__(self, wrong):
        self.x = np.ones(64, np.float32)
        self.launches, self.wrong = [(scale, 1, 64, (self.x, np.float32(2)))], wrong

    def check(self):
        np.testing.assert_array_equal(self.x, 3 if self.wrong else 2)


def checked(wrong=False):
    return Checked(wrong)


def nothing(n=1):
    return None


def needs(n):
    return scale_case(n)


def fails():
    return 1 // 0


def on_device():
    return scale, 1, 32, (cuda.to_device(np.ones(32, np.float32)), 1.0)


number = 7
if __name__ == "__main__":
    raise RuntimeError("imported, not run")
"""


@pytest.fixture
def gpusim(capsys, tmp_path, monkeypatch):
    """Run a command line in a folder that holds my.py; (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(FILE)
    (tmp_path / "beside.py").write_text("FACTOR = 3\n")
    (tmp_path / "launches.py").write_text("from my import scale\nimport numpy as np\nscale[1, 32](np.ones(32), 1)\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_case_of_ones_own_is_captured_and_simulated_at_the_shape_asked_for(gpusim, tmp_path):
    code, out, err = gpusim("capture", "my.py:scale_case:n=4096,block=64", "-o", "s.trace", "--format", "json")
    assert code == 0, err
    (row,) = json.loads(out)
    assert row["kernel"] == "scale" and row["blocks"] == 64
    direct = json.loads(gpusim("simulate", "my.py:scale_case:n=4096,block=64", "--format", "json")[1])
    assert direct == json.loads(gpusim("simulate", "s.trace", "--format", "json")[1])
    assert (
        json.loads(gpusim("capture", "my.py:scale_case", "--small", "-o", "t.trace", "--format", "json")[1])[0][
            "blocks"
        ]
        == 8
    )
    code, out, err = gpusim("capture", "my.py:two_launches", "-o", "u.trace", "--format", "json")
    assert code == 0 and len(json.loads(out)) == 2, err


def test_its_check_decides(gpusim):
    assert gpusim("capture", "my.py:checked", "-o", "s.trace")[0] == 0
    code, _, err = gpusim("capture", "my.py:checked:wrong=True", "-o", "s.trace")
    assert code == 6 and "differs" in err


@pytest.mark.parametrize("signature", ["float32[:], float32", "void(float32[::1], float64)"])
def test_a_kernel_is_surveyed_by_its_signature(gpusim, signature):
    code, out, err = gpusim(
        "sass", "survey", "my.py:scale", "--signature", signature, "--arch", "sm_90", "--format", "json"
    )
    assert code == 0, err
    (total,) = json.loads(out)["totals"]
    assert total["architecture"] == "sm_90" and total["kernels"] == 1 and total["supported"] == total["forms"] > 8
    assert gpusim("sass", "survey", "my.py:scale_case", "--arch", "sm_90")[0] == 0


def test_machine_code_is_shown_of_what_cannot_run(gpusim, tmp_path):
    (tmp_path / "wild.py").write_text(
        "import numpy as np\nfrom numba import cuda\n"
        "@cuda.jit\ndef wild(x):\n    x[cuda.grid(1) + 10**9] = 1\n"
        "def case():\n    return wild, 1, 32, (np.zeros(32, np.float32),)\n"
    )
    assert gpusim("simulate", "wild.py:case")[0] == 3
    code, out, err = gpusim("sass", "wild.py:case", "--format", "json")
    assert (code, err) == (0, "")
    assert any(row["sass"].startswith("STG") and row["line"] == 5 for row in json.loads(out))
    assert gpusim("sass", "wild.py:wild", "--signature", "float32[::1]", "--format", "json")[1] == out


@pytest.mark.parametrize(("arguments", "words"), [
    (["sass", "my.py:scale"], ["--signature"]),
    (["sass", "my.py:scale_case", "--signature", "float32"], ["my.py:scale_case is none"]),
    (["capture", "my.py:scale", "-o", "s.trace"], ["is a kernel", "scale_case", "gpusim run"]),
    (["simulate", "my.py:scale"], ["is a kernel"]),
    (["sass", "survey", "my.py:scale"], ["--signature"]),
    (["sass", "survey", "my.py:scale", "--signature", "flot32"], ["flot32", "Numba types"]),
    (["sass", "survey", "saxpy", "--signature", "float32"], ["--signature"]),
    (["simulate", "my.py:absent"], ["no absent", "scale_case"]),
    (["simulate", "none.py:case"], ["no file none.py"]),
    (["simulate", "my.py:number"], ["int"]),
    (["simulate", "my.py:scale_case:m=3"], ["no parameter 'm'", "block"]),
    (["simulate", "my.py:needs"], ["my.py:needs:n=VALUE"]),
    (["simulate", "my.py:nothing"], ["must return", "NoneType"]),
    (["simulate", "my.py:fails"], ["line 46 of my.py", "ZeroDivisionError"]),
    (["simulate", "my.py:on_device"], ["gpusim run"]),
    (["simulate", "launches.py:scale"], ["line 3 of launches.py", "gpusim run"]),
])  # fmt: skip
def test_mistakes_are_answered_in_one_line(gpusim, arguments, words):
    code, out, err = gpusim(*arguments)
    assert code == 2 and not out
    assert err.count("\n") == 1 and err.startswith("error: ")
    for word in words:
        assert word in err


def test_a_module_that_an_extra_brings_is_named_with_the_extra(gpusim, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text("import numpy\nfrom cutlass import cute\ndef case(): ...\n")
    monkeypatch.setitem(sys.modules, "cutlass", None)
    code, out, err = gpusim("simulate", "own.py:case")
    assert (code, out) == (3, "")
    assert "own.py (line 2 of own.py) needs cutlass, which is not installed: pip install 'gpusim[cute]'" in err


def test_a_long_capture_says_how_far_it_is_and_a_quick_one_nothing(gpusim, monkeypatch):
    not_checked = "not checked: my.py:scale_case (the case has no check)\n"
    assert gpusim("capture", "my.py:scale_case", "-o", "s.trace")[2] == not_checked
    begin = progress.Display.begin

    def begin_and_look(display, task):
        begin(display, task)
        display.draw()

    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(progress.Display, "begin", begin_and_look)
    err = gpusim("capture", "my.py:scale_case", "-o", "s.trace")[2]
    assert err.splitlines()[:2] == ["capturing scale: 0 of 8 blocks, 0 s", "capturing scale: 8 of 8 blocks in 0 s"]
