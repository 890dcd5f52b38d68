"""Does what ends nvJitLink leave gpusim standing, and does its process never outlive the one that asked?"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings", reason="needs the CUDA wheels")

import gpusim
from gpusim.driver import jit
from gpusim.driver.abi import INVALID_PTX, DriverError
from gpusim.errors import CompileError
from gpusim.frontend.native import link_process
from gpusim.frontend.native.link import KINDS, run_linker

KERNEL = """.version 7.1
.target sm_75
.address_size 64
.visible .entry k() {{ .reg .b32 %r<5>; {} ret; }}
"""
SOUND = KERNEL.format("")
#: One register where this instruction takes four: nvJitLink 13.5 takes it on sm_80 and ends with SIGSEGV from sm_100
#: on.
ENDING = KERNEL.replace("sm_75", "sm_80").format(
    "mma.sp.sync.aligned.m16n8k64.row.col.satfinite.s32.u8.s8.s32"
    " {%r0, %r1, %r2, %r3}, %r4, {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, %r4, 0x0;"
)


def linked(flag: str = "-arch=sm_80"):
    return run_linker([flag], [(KINDS[".ptx"], "a part", SOUND.encode())])


def gone(process: int) -> bool:
    """Whether it ends within ten seconds; one that nobody waits for stays listed as a zombie."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                continue
        return True
    return False


def test_ptx_that_ends_the_linker_is_refused_in_one_line() -> None:
    with pytest.raises(
        CompileError, match=r"^k does not link for sm_100\w?: nvJitLink itself ended with SIG\w+"
    ) as caught:
        gpusim.capture(gpusim.ptx(ENDING, "k"), 1, 32, (), gpu="b200")
    assert "\n" not in str(caught.value)
    with pytest.raises(DriverError, match="nvJitLink itself ended with SIG") as refused:
        jit.link([(jit.PTX_INPUT, "module", ENDING.encode())], "sm_100", jit.JitOptions())
    assert refused.value.code == INVALID_PTX
    assert linked().cubin


def test_an_option_that_ends_the_linker_is_refused_with_what_it_printed(capfd) -> None:
    ended = linked("-arch=sm_7")
    assert not ended.cubin and ended.error == (
        "nvJitLink itself ended with exit code 1 (fatal : Unknown arch name 'compute_7')"
    )
    assert capfd.readouterr() == ("", "")


def test_one_process_links_again_and_again_and_a_driver_leaves_none() -> None:
    assert linked().cubin
    kept = link_process._kept.process
    assert linked().cubin and linked("-nonsense").error == "ERROR_UNRECOGNIZED_OPTION (1)"
    assert link_process._kept.process is kept is not None
    assert jit.link([(jit.PTX_INPUT, "module", SOUND.encode())], "sm_80", jit.JitOptions())
    assert link_process._kept.process is kept
    os.kill(kept._process.pid, signal.SIGKILL)  # by whoever: says nothing of the next link
    assert linked().cubin


def test_ctrl_c_ends_a_link_and_its_process() -> None:
    process = link_process.LinkProcess(link_process._library())
    number = process._process.pid
    os.kill(number, signal.SIGSTOP)  # a link that takes long
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            process.ask([b"-arch=sm_80"], [])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not Path(f"/proc/{number}").exists()


def test_no_process_outlives_its_parent_and_a_forked_child_has_its_own() -> None:
    program = (
        "import os, sys; sys.path[:] = sys.argv[1:]; from test_link_process import linked, link_process; linked()\n"
        "kept = link_process._kept.process\n"
        "if os.fork() == 0: os._exit(not (linked().cubin and link_process._kept.process is not kept))\n"
        "assert os.wait()[1] == 0 and linked().cubin and link_process._kept.process is kept\n"
        "print(os.getpgid(kept._process.pid) == kept._process.pid, kept._process.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent), *sys.path], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    of_its_own, number = done.stdout.split()
    assert of_its_own == "True" and gone(int(number))
