"""The recorder under the compilers' sanitizers: no bad address, no undefined behaviour, no data race, whatever a
program does."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from recorded import COMPILER, SUPPORT, environment, fake_cupti, stub_folder

from gpusim.collect.once import recorded
from gpusim.record.library import FLAGS, LIBRARIES, NATIVE, sources

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(COMPILER is None, reason="the recorder is built by a C compiler")]
KINDS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "thread": ("-fsanitize=thread",),
}
#: `crash` and `_exit` end as they shall; a report ends a program with this code instead.
REPORTED = 66
OPTIONS = f"exitcode={REPORTED}:halt_on_error=1:abort_on_error=0:detect_leaks=0:handle_segv=0:die_after_fork=0"


@cache
def program(kind: str) -> Path:
    """The test's program with the recorder linked into it: a sanitizer's runtime must come first, so that nothing is
    preloaded."""
    folder = Path(tempfile.mkdtemp(prefix="gpusim-sanitized-"))
    flags = [flag for flag in FLAGS if not flag.startswith(("-O2", "-fvisibility"))]
    # The sanitizers' own beginning calls dlsym, and so must find one that is not theirs yet.
    plain, sanitized = NATIVE / "resolve.c", [source for source in sources() if source.name != "resolve.c"]
    subprocess.run([COMPILER, *flags, "-O2", "-c", "-o", folder / "resolve.o", plain], check=True)
    objects = ["-rdynamic", "-O1", "-g", *KINDS[kind], *sanitized, folder / "resolve.o", SUPPORT / "recorded_program.c"]
    command = [COMPILER, *flags, f"-I{NATIVE}", "-o", folder / "program", *objects, *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "cannot find" in done.stderr:
        pytest.skip(f"{COMPILER} has no {kind} sanitizer")
    assert done.returncode == 0, done.stderr
    return folder / "program"


def run(kind: str, what: str, **more: str) -> tuple[int, int, str]:
    """(exit code, launches counted, what was reported)."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    options = {"ASAN_OPTIONS": OPTIONS, "TSAN_OPTIONS": OPTIONS, "UBSAN_OPTIONS": f"print_stacktrace=1:{OPTIONS}"}
    settings = {**environment(folder / "s", **more), **options}
    del settings["LD_PRELOAD"]
    # A position that ASLR draws beyond what the thread sanitizer expects ends it before it begins.
    command = [
        *filter(None, [shutil.which("setarch")]),
        *(["-R"] if shutil.which("setarch") else []),
        program(kind),
        what,
    ]
    text: list[str] = []

    def work() -> int:
        done = subprocess.run(command, env=settings, timeout=120, capture_output=True, text=True)
        text.append(done.stderr)
        return done.returncode

    code, totals, dropped = recorded(folder, folder / "s", work)
    return code, sum(total.launches for total in totals) + dropped, text[0]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("what", "code", "launches"),
    [
        ("plain", 0, 100),
        ("threads", 0, 4100),
        ("crowd", 0, 2100),
        ("fork", 0, 110),
        ("reloaded", 0, 130),
        ("renamed", 0, 130),
        ("shapes", 0, 5700),
        ("refused", 0, 100),
        ("exec", 0, 200),
        ("crash", -11, 100),
    ],
)
def test_nothing_is_reported(kind: str, what: str, code: int, launches: int) -> None:
    ended, counted, text = run(kind, what)
    assert (ended, text) == (code, "")
    assert 0 < counted <= launches  # sanitized, a process may be too slow for its last words


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("wrong", ["", *"seordxh"])
def test_nothing_is_reported_with_cupti(kind: str, wrong: str) -> None:
    stub_folder()
    ended, counted, text = run(kind, "times", GPUSIM_RECORD_CUPTI=str(fake_cupti()), FAKE_CUPTI=wrong)
    in_graph = 0 if set(wrong) & set("eordx") else 8
    assert (ended, text) == (0, "")
    assert counted <= 125 + in_graph


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("what", ["profiles first", "profiles later"])
def test_nothing_is_reported_where_the_program_profiles_itself(kind: str, what: str) -> None:
    stub_folder()
    ended, counted, text = run(kind, what, GPUSIM_RECORD_CUPTI=str(fake_cupti()))
    assert (ended, text) == (0, "")
    assert 0 < counted <= 110
