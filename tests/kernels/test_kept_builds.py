"""Machine code kept from an earlier process is that of the very same kernel, or it is not taken."""

from __future__ import annotations

import types

import numpy as np
import pytest
from numba import cuda

from gpusim.frontend.numba import build as building
from gpusim.frontend.numba.build import argument_types, build
from gpusim.frontend.numba.kept_builds import fingerprint, read_build, write_build
from gpusim.io.cache_folder import CACHE_VARIABLE

FACTOR, TABLE = 3, np.arange(4, dtype=np.float32)
ARGUMENTS = (np.zeros(4, np.float32),)


@cuda.jit(device=True)
def twice(value):
    return 2 * value


@cuda.jit
def scale(x):
    x[cuda.grid(1)] = twice(x[cuda.grid(1)]) * FACTOR + cuda.const.array_like(TABLE)[0]


def digest(kernel, args=ARGUMENTS, capability=(9, 0), tools="tools") -> str | None:
    return fingerprint(kernel, argument_types(kernel, args), capability, tools)


def with_globals(kernel, **changed):
    """The same kernel, with other things behind the names that it uses."""
    function = kernel.py_func
    return cuda.jit(types.FunctionType(function.__code__, {**function.__globals__, **changed}, function.__name__))


@cuda.jit(device=True)
def thrice(value):
    return 3 * value


def made(addend):
    @cuda.jit
    def add(x):
        x[cuda.grid(1)] += addend

    return add


def test_the_digest_is_that_of_the_kernel_and_of_all_that_it_refers_to() -> None:
    own = digest(scale)
    assert own is not None and own == digest(scale) == digest(with_globals(scale))
    others = [
        digest(with_globals(scale, FACTOR=4)),
        digest(with_globals(scale, FACTOR=3.0)),
        digest(with_globals(scale, TABLE=TABLE + 1)),
        digest(with_globals(scale, twice=thrice)),
        digest(scale, (np.zeros(4, np.float64),)),
        digest(scale, capability=(8, 0)),
        digest(scale, tools="newer tools"),
        digest(cuda.jit(fastmath=True)(scale.py_func)),
        digest(made(1)),
        digest(made(2)),
        digest(made(1.0)),
    ]
    assert None not in others and len({own, *others}) == len(others) + 1
    assert digest(made(1)) == others[-3]


def test_a_setting_of_numba_s_counts(monkeypatch) -> None:
    own = digest(scale)
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert digest(scale) != own


def test_what_cannot_be_told_is_not_kept() -> None:
    class Thing:
        value = 3

    assert digest(cuda.jit(debug=True, opt=False)(scale.py_func)) is None
    assert digest(with_globals(scale, FACTOR=Thing())) is None
    assert digest(with_globals(scale, FACTOR=types.ModuleType("mine"))) is None


def test_a_kept_build_is_the_build(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    kinds = argument_types(scale, ARGUMENTS)
    fresh = build(with_globals(scale), kinds, (9, 0))
    assert len(list(tmp_path.rglob("*.json"))) == 1
    monkeypatch.setattr(building, "_compile", lambda *_: pytest.fail("compiled again"))
    kept = build(with_globals(scale), kinds, (9, 0))
    for part in (
        "cubin",
        "line_cubin",
        "entry_name",
        "name",
        "capability",
        "cooperative",
        "argument_types",
        "toolchain",
    ):
        assert getattr(kept, part) == getattr(fresh, part), part


@pytest.mark.parametrize("same_process", [True, False])
def test_a_build_with_lines_serves_who_wants_none_but_not_the_other_way(
    same_process: bool, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "" if same_process else str(tmp_path))
    kinds, kernel = argument_types(scale, ARGUMENTS), with_globals(scale)
    again = kernel if same_process else with_globals(scale)
    plain = build(kernel, kinds, (8, 0), lines=False)
    lined = build(again, kinds, (8, 0))
    assert not plain.line_cubin and lined.line_cubin and lined.image.code == plain.image.code
    other = with_globals(scale)
    fresh = build(other, kinds, (9, 0))
    monkeypatch.setattr(building, "_compile", lambda *_: pytest.fail("compiled again"))
    served = build(other if same_process else with_globals(scale), kinds, (9, 0), lines=False)
    assert served.cubin == fresh.cubin


@pytest.mark.parametrize("damage", [b"", b"{}", b"[" * 100_000, b'{"cubin": 3}', b"\xff\xfe"])
def test_a_damaged_file_counts_as_none(damage: bytes, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    write_build("a", b"code", b"", "entry", False)
    assert read_build("a") == {"cubin": b"code", "line_cubin": b"", "entry_name": "entry", "cooperative": False}
    (tmp_path / "numba" / "a.json").write_bytes(damage)
    assert read_build("a") is None


def test_nothing_is_kept_where_that_is_switched_off(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "")
    write_build("a", b"code", b"", "entry", False)
    assert read_build("a") is None
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("")
    write_build("a", b"code", b"", "entry", False)
    assert read_build("a") is None
