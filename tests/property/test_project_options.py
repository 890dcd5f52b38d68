"""How numbers and names of ``gpusim project`` may be written."""

from __future__ import annotations

import pytest

from gpusim.cli import run
from gpusim.project.sweep import axes_of


def test_counts_and_names_are_written_as_people_do(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> tuple[str, str]:
        run(["project", "llama3_8b", "--gpu", "h100", "--phase", "decode", "--format", "json", *words])
        return capsys.readouterr()

    plain, _ = said("--batch", "16", "--sequence", "4096", "--dtype", "fp16")
    assert said("--batch", "2**4", "--sequence", "4Ki", "--dtype", "FP16")[0] == plain
    assert "write 4Ki (times 1024) or 4e3" in said("--sequence", "4k")[1]
    assert "nan is no number" in said("--batch", "nan")[1]
    found = axes_of(["sequence=1Ki..4Ki", "dtype=FP8,bf16"])
    assert found == {"sequence": (1024, 2048, 4096), "dtype": ("fp8", "bf16")}
