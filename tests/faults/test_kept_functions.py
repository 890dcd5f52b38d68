"""Compiled functions come back from disk as they were, without what only compiling needs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is kept with JIT off")

FUNCTIONS = """
import sys
import numpy as np
from gpusim.trace.compiled import compiled, reading

@compiled
def double(x):
    for i in range(x.shape[0]):
        x[i] *= 2

@compiled
def twice(x):
    double(x)
    double(x)

@reading
def sums(x):
    made = np.zeros(2, np.int64)
    for i in range(x.shape[0]):
        made[i % 2] += x[i]
    return made
"""
#: Compiled code calls ``double``, which is loaded; ``sums`` makes an array, so that references are counted.
SCRIPT = """
import sys
import numpy as np
from functions import {names}

x = np.arange(5)
for function in ({names},):
    got = function(x)
    print(x.tolist(), None if got is None else got.tolist(), sum(function.stats.cache_hits.values()))
print("numba.np.npyimpl" in sys.modules)
"""


def run(folder: Path, names: str) -> list[str]:
    command = [sys.executable, "-c", SCRIPT.format(names=names)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


def test_they_do_what_they_did_and_numba_is_not_made_ready(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    first = run(tmp_path, "double, sums")
    assert first == ["[0, 2, 4, 6, 8] None 0", "[0, 2, 4, 6, 8] [12, 8] 0", "True"]
    assert run(tmp_path, "double, sums") == [line[:-1] + "1" for line in first[:-1]] + ["False"]
    # One that is loaded is linked into another, which is compiled.
    assert run(tmp_path, "double, twice") == ["[0, 2, 4, 6, 8] None 1", "[0, 8, 16, 24, 32] None 0", "True"]


def test_a_command_looks_for_garbage_while_it_works_and_a_user_s_program_as_python_does() -> None:
    script = """
import gc
import os
from gpusim.io import garbage
default = gc.get_threshold()
garbage.loaded()
assert gc.isenabled() and gc.get_threshold() == default and not gc.get_freeze_count()
garbage.starting()
assert not gc.isenabled()
garbage.loaded(own_program=False)
assert gc.isenabled() and gc.get_threshold() == default and not gc.get_freeze_count()
garbage.starting()
garbage.loaded()
assert gc.isenabled() and gc.get_threshold() > default and gc.get_freeze_count()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert gc.isenabled()


def written(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """The script's run where neither the folder's own cache nor the user's can be written: a file stands in each
    folder's place."""
    command = [sys.executable, "-c", SCRIPT.format(names="double, sums, plain")]
    environment = {**os.environ, "HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", **settings}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


PLAIN = "\nfrom gpusim.io.jit_cache import kept\n\n@kept\ndef plain(x):\n    return x + 1\n"


def test_where_no_folder_can_be_written_what_is_compiled_runs(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS + PLAIN)
    (tmp_path / "__pycache__").write_text("")
    done = written(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    lines = ["[0, 2, 4, 6, 8] None 0", "[0, 2, 4, 6, 8] [12, 8] 0", "[0, 2, 4, 6, 8] [1, 3, 5, 7, 9] 0"]
    assert done.stdout.splitlines()[:3] == lines, done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="mounts")
def test_a_full_disk_keeps_nothing_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS + PLAIN)
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    command = [sys.executable, "-c", limited + SCRIPT.format(names="double, sums, plain")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[2] == "[0, 2, 4, 6, 8] [1, 3, 5, 7, 9] 0", done.stderr


def test_what_is_plainly_kept_and_makes_arrays_comes_first_in_a_process(tmp_path: Path) -> None:
    """Its code counts references, for which Numba is made ready before it is loaded."""
    (tmp_path / "functions.py").write_text(FUNCTIONS + PLAIN)
    run(tmp_path, "plain")
    assert run(tmp_path, "plain")[0] == "[0, 1, 2, 3, 4] [1, 2, 3, 4, 5] 1"


def test_what_an_image_brought_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS + PLAIN)
    run(tmp_path, "double, sums, plain")
    done = written(tmp_path, NUMBA_CACHE_LOCATOR_CLASSES="gpusim.io.jit_kept._AsItStands")
    assert [line[-1] for line in done.stdout.splitlines()[:3]] == ["1", "1", "1"], done.stderr
