"""What a command leaves to the process as it ends."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from gpusim.io.garbage import ending


@pytest.mark.parametrize("loaded", [False, True])
def test_what_tritons_compiler_has_made_is_collected(loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """nanobind lists on stderr what is left at the end; nothing else wants the time that a last collection takes."""
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    if loaded:
        monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    before = gc.get_freeze_count()
    try:
        ending()
        assert (gc.get_freeze_count() > before) == (not loaded)
    finally:
        gc.unfreeze()
