"""How ``gpusim project`` is written: files and tokens, and networks as their makers call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim.cli import run
from gpusim.project.network import decoder_of


def test_a_file_takes_the_data_where_its_ending_says_so_and_tokens_may_be_spelt_as_before(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["project", "llama3_8b", "--gpu", "h100:1", "--batch", "4", "--sequence", "512"]
    for number, spelt in enumerate((["--output-tokens", "64"], ["--output", "64"])):
        path = tmp_path / f"{number}.json"
        assert run([*words, *spelt, "-o", str(path)]) == 0 and capsys.readouterr().out == ""
        assert json.loads(path.read_text())[0]["output"] == 64
    assert run([*words, "--output", str(tmp_path / "a.html"), "-o", str(tmp_path / "b.html")]) == 2
    assert "takes one file" in capsys.readouterr().err


def test_networks_go_by_their_makers_names() -> None:
    assert decoder_of("Qwen/Qwen2.5-7B-Instruct") == decoder_of("qwen2.5_7b") != decoder_of("Llama-3-8B")


def test_what_is_unknown_is_a_share_of_the_time_and_not_told_where_it_rounds_to_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Long contexts make the rest of a step small; one far beyond all measured ones is unknown itself."""
    assert run(["project", "llama3_8b", "--gpu", "h100"]) == 0
    assert "% of the time: no measured operators" in capsys.readouterr().out
    long = ["--phase", "decode", "--batch", "8", "--sequence"]
    assert run(["project", "llama3_70b", "--gpu", "h100", *long, "500000"]) == 0
    assert "unknown" not in capsys.readouterr().out
    assert run(["project", "llama3_70b", "--gpu", "h100", *long, "1000000"]) == 0
    assert "no measured attention of 1,000,000 keys" in capsys.readouterr().out
