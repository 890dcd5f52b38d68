"""What one checkout has compiled serves another of the same sources, and none of others."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import kept_compiled
import numba
import pytest
from kept_compiled import keep, restore, versions

from gpusim.model import l2


def compiled(root: Path, version: str, code: bytes, name: str = "f-1") -> Path:
    """A function of ``root``: its index, and its code."""
    folder = root / "gpusim" / "model" / "__pycache__"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py311.1.nbc").write_bytes(code)
    (folder / f"{name}.py311.nbi").write_bytes(pickle.dumps(version))
    return folder


def code_of(folder: Path, name: str = "f-1") -> bytes:
    return (folder / f"{name}.py311.1.nbc").read_bytes()


def test_what_was_compiled_from_the_same_sources_is_put_in_place_and_nothing_else(tmp_path: Path) -> None:
    store, fresh = tmp_path / "store", tmp_path / "fresh"
    compiled(tmp_path / "a", "1 same", b"same")
    compiled(tmp_path / "a", "1 other", b"other", "g-1")
    assert keep(tmp_path / "a", store, ["1 same"]) == 1
    assert restore(fresh, store, ["1 other", "1 new"]) == 0 and not fresh.exists()
    assert restore(fresh, store, ["1 same"]) == 1 and restore(fresh, store, ["1 same"]) == 0
    assert code_of(fresh / "gpusim" / "model" / "__pycache__") == b"same"
    own = compiled(tmp_path / "b", "1 older", b"older")
    assert restore(tmp_path / "b", store, ["1 same"]) == 1 and code_of(own) == b"same"


def test_who_comes_first_fills_a_place_and_what_was_used_last_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    for name in ("a", "b"):
        compiled(tmp_path / name, "1 same", name.encode())
        keep(tmp_path / name, store, ["1 same"])
    restore(tmp_path / "c", store, ["1 same"])
    assert code_of(tmp_path / "c" / "gpusim" / "model" / "__pycache__") == b"a"
    monkeypatch.setattr(kept_compiled, "MOST_FOLDERS", 1)
    compiled(tmp_path / "d", "1 later", b"d")
    keep(tmp_path / "d", store, ["1 later"])
    assert restore(tmp_path / "e", store, ["1 same"]) == 0 and restore(tmp_path / "e", store, ["1 later"]) == 1


def test_a_function_of_ours_is_of_a_version_that_is_known() -> None:
    function: Any = l2.handle_until
    cache = function._cache._cache_file
    assert cache._version in versions() and cache._version.startswith(numba.__version__)


def test_nothing_is_kept_where_nothing_is_to_be_or_numba_compiles_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        monkeypatch.delenv(name)
    assert kept_compiled.kept_folder() is not None
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert kept_compiled.kept_folder() is None
    monkeypatch.delenv("NUMBA_BOUNDSCHECK")
    monkeypatch.setenv("GPUSIM_CACHE_DIR", "")
    assert kept_compiled.kept_folder() is None
