"""What `gpusim bisect` says of reported regressions, reproduced in kind by `tools/reported_regressions.py`: the step,
and the word that names its cause."""

from __future__ import annotations

from pathlib import Path

import pytest
import reported_regressions as tool


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("name", 1, ("SLOWER", "commit 2", "STL")),
        ("constants", 1, ("commit 2", "registers (32 to 64)")),
        ("constants-other", 0, ("No difference", "host")),
        ("host", 0, ("No difference", "same byte for byte", "host")),
        ("ndebug", 1, ("SLOWER", "commit 2", "machine code")),
        ("ptxas", 1, ("ptxas 12.9.86", "STL")),
    ],
)
def test_a_reported_class_is_found_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.db"))
    said = tool.REPORTS[name].bisected(tmp_path)
    assert said.code == code and all(word in said.text for word in words), said.text
