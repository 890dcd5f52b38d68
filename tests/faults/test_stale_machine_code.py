"""Compiled code that Numba kept from other sources is never loaded: the cache's stamp covers them all."""

import io
from pathlib import Path

import numba
import pytest
from numba.core.caching import NullCache

from gpusim.engine.sm_advance import advance_group
from gpusim.io.jit_cache import stamp_of
from gpusim.io.progress import Display, shown
from gpusim.isa import jit
from gpusim.model import compiled
from gpusim.model.coalescer import coalesce_span
from gpusim.model.lsu import enqueue


def test_any_change_of_any_source_changes_the_stamp(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1")
    second.write_text("y = 1")
    before = stamp_of([first, second])
    assert stamp_of([second, first]) == before
    second.write_text("y = 2")
    assert stamp_of([first, second]) != before


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is cached with JIT off")
@pytest.mark.parametrize("function", [advance_group, coalesce_span], ids=["engine", "model"])
def test_engine_and_model_carry_the_stamp_of_all_their_sources(function):
    assert compiled.SOURCES in function._cache._cache_file._source_stamp


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is cached with JIT off")
def test_the_interpreter_carries_the_stamp_of_all_its_sources():
    @jit.compiled
    def nothing():
        return 0

    assert jit.SOURCES in nothing._cache._cache_file._source_stamp


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is cached with JIT off")
def test_an_index_of_other_sources_is_not_unpickled():
    """It may name classes that have moved since."""

    @jit.compiled
    def nothing():
        return 0

    kept = nothing._cache._cache_file
    own, kept._version = kept._version, "of other sources"
    assert jit.SOURCES in own
    kept.flush()
    index = Path(kept._index_path)
    index.write_bytes(index.read_bytes()[:-5])
    kept._version = own
    assert kept._load_index() == {}


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is cached with JIT off")
def test_functions_that_only_compiled_functions_call_are_kept_as_part_of_those_alone():
    @jit.inner
    def nothing():
        return 0

    assert isinstance(nothing._cache, NullCache)
    assert isinstance(enqueue._cache, NullCache)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled with JIT off")
def test_a_command_says_that_gpusim_compiles_itself_while_it_does_and_no_longer(monkeypatch):
    told = []
    monkeypatch.setattr(Display, "begin", lambda self, task: told.append(task.what))
    monkeypatch.setattr(Display, "end", lambda self, task, well: told.append(well))

    @jit.compiled
    def inner():
        return 1

    @jit.compiled
    def outer():
        return inner()

    with shown(io.StringIO()):
        outer()
        outer()
    assert told == ["compiling gpusim itself, once for this version", True]
