"""Does a front end that gpusim has never heard of work everywhere, and is a kernel that nobody takes refused in
words?"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_distribution import install, on_path
from numba import cuda

import gpusim
from gpusim import cli
from gpusim.errors import LaunchError, PluginError, UsageError
from gpusim.frontend.numba.build import argument_types, build
from gpusim.frontend.registry import front_end_of, is_kernel

#: A package of a stranger: kernels are cubin files with a block of their own, arguments are the bytes of the
#: parameters.
STRANGER = '''
from pathlib import Path

from gpusim.frontend.protocol import FrontEnd
from gpusim.launch.binary import KernelBinary


class Machine:
    """A kernel: a cubin file, the kernel's name in it, and what its compiler fixed."""

    def __init__(self, path, entry, threads):
        self.path, self.entry, self.threads, self.binaries = path, entry, threads, {}


class Cubins(FrontEnd):
    name = "cubins"
    takes = "a Machine"

    def accepts(self, kernel):
        return isinstance(kernel, Machine)

    def compile(self, kernel, args, capability, *, lines=True):
        if capability not in kernel.binaries:
            kernel.binaries[capability] = KernelBinary(
                Path(kernel.path).read_bytes(), kernel.entry, "machine", (9, 0),
                block=(kernel.threads, 1, 1), constants={"THREADS": kernel.threads},
            )
        return kernel.binaries[capability]

    def pack(self, kernel, binary, args, arrays):
        (parameters,) = args
        return bytes(parameters) if isinstance(parameters, (bytes, bytearray)) else binary.place_parameters(
            [arrays.map(a, "array").to_bytes(8, "little") if hasattr(a, "shape") else a for a in parameters]
        )


FRONT_END = Cubins()
'''
CASE = """
import numpy as np
from stranger_cubins import Machine

machine = Machine({path!r}, {entry!r}, 64)


def double_case(n=200):
    values = np.arange(n, dtype=np.float32)
    nothing, size, item = bytes(8), n.to_bytes(8, "little"), (4).to_bytes(8, "little")
    array = [nothing, nothing, size, item, values, size, item]
    return machine, lambda constants: -(-n // constants["THREADS"]), None, (array,)
"""


@cuda.jit
def double(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= 2


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages with the stranger's front end, and a file that uses it."""
    binary = build(double, argument_types(double, (np.zeros(1, np.float32),)), (9, 0))
    (tmp_path / "double.cubin").write_bytes(binary.cubin)
    install(tmp_path, "stranger", {"gpusim.frontends": {"cubins": "stranger_cubins:FRONT_END"}})
    (tmp_path / "stranger_cubins.py").write_text(STRANGER)
    (tmp_path / "mine.py").write_text(CASE.format(path=str(tmp_path / "double.cubin"), entry=binary.entry_name))
    with on_path(tmp_path):
        yield tmp_path


def machine(folder: Path, threads: int = 64):
    from stranger_cubins import Machine

    entry = build(double, argument_types(double, (np.zeros(1, np.float32),)), (9, 0)).entry_name
    return Machine(folder / "double.cubin", entry, threads)


def test_machine_code_and_raw_parameters_are_captured_and_simulated(stranger: Path) -> None:
    memory, values = gpusim.DeviceMemory(), np.arange(200, dtype=np.float32)
    parameters = struct.pack("<7q", 0, 0, 200, 4, memory.address_of(values), 200, 4)
    kernel = machine(stranger)
    assert is_kernel(kernel) and front_end_of(kernel).name == "cubins"
    trace = gpusim.capture(kernel, 4, None, (parameters,), gpu="h200", memory=memory)
    np.testing.assert_array_equal(values, 2 * np.arange(200))
    assert trace.launch.kernel == "machine" and trace.launch.block == (64, 1, 1)

    own = np.arange(200, dtype=np.float32)
    same = gpusim.capture(double, 4, 64, (own,), gpu="h200")
    assert same.launch.cubin_sha256 == trace.launch.cubin_sha256
    assert gpusim.simulate(trace, "h200").cycles == gpusim.simulate(same, "h200").cycles > 0


def test_its_kernels_work_in_a_users_file_and_in_sass(stranger: Path, capsys: pytest.CaptureFixture) -> None:
    assert cli.run(["capture", f"{stranger}/mine.py:double_case:n=300", "-o", str(stranger / "t.trace")]) == 0
    assert gpusim.Trace.load(stranger / "t.trace").launch.grid == (5, 1, 1)
    capsys.readouterr()
    assert cli.run(["sass", f"{stranger}/mine.py:machine", "--gpu", "h200", "--format", "json"]) == 0
    listed = [row["sass"] for row in json.loads(capsys.readouterr().out)]
    assert any(text.startswith("EXIT") for text in listed) and any("FADD" in text for text in listed)
    assert cli.run(["sass", "survey", f"{stranger}/mine.py:machine", "--gpu", "h200"]) == 0


def test_what_a_language_has_fixed_cannot_be_given_otherwise(stranger: Path) -> None:
    with pytest.raises(LaunchError, match=r"machine: block 32: the kernel was compiled for \(64, 1, 1\)"):
        gpusim.capture(machine(stranger), 1, 32, (b"",), gpu="h200")
    with pytest.raises(LaunchError, match="double: give a block"):
        gpusim.capture(double, 1, None, (np.zeros(4, np.float32),), gpu="h200")
    with pytest.raises(LaunchError, match="machine code for sm_90 does not run on sm_80"):
        gpusim.capture(machine(stranger), 1, 64, (b"",), gpu="sm_80")


def test_a_kernel_of_no_front_end_is_refused_with_those_that_there_are(stranger: Path) -> None:
    with pytest.raises(UsageError) as caught:
        gpusim.capture(double.py_func, 1, 32, ())
    text = str(caught.value)
    assert text.startswith("double is not a kernel that any front end takes: give ")
    assert "a function decorated with @numba.cuda.jit (front end numba)" in text
    assert "a Machine (front end cubins)" in text


def test_a_broken_front_end_is_blamed_only_where_nobody_else_takes_the_kernel(tmp_path: Path) -> None:
    install(tmp_path, "breaker", {"gpusim.frontends": {"odd": "broken_front_end:FRONT_END"}})
    (tmp_path / "broken_front_end.py").write_text("FRONT_END = 7\n")
    with on_path(tmp_path):
        values = np.ones(4, np.float32)
        gpusim.capture(double, 1, 32, (values,), gpu="h200")
        assert (values == 2).all()
        with pytest.raises(PluginError, match="entry point odd .* of distribution breaker: has no name"):
            gpusim.capture(double.py_func, 1, 32, (values,))


def test_a_front_end_whose_requirements_are_missing_is_named_where_nobody_else_takes_the_kernel(tmp_path: Path) -> None:
    install(tmp_path, "heavy", {"gpusim.frontends": {"heavy": "heavy_front_end:FRONT_END"}})
    (tmp_path / "heavy_front_end.py").write_text("import a_package_that_is_not_there\n")
    with on_path(tmp_path), pytest.raises(UsageError, match=r"@numba\.cuda\.jit.*heavy.*a_package_that_is_not_there"):
        gpusim.capture(double.py_func, 1, 32, ())
