"""What somebody who decides must find on a projection's page: how it is run, what is hidden, what its rows are of, from
where it comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim.cli import run
from gpusim.gpus.describe import evidence_of_gpu
from gpusim.gpus.load import load_gpu
from gpusim.project.limits import BETWEEN_GPUS, limiters
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.settings import power_of, schedule_of
from gpusim.project.text import lines_of
from gpusim.project.whole import project_model
from gpusim.report.model_page import render_model
from gpusim.report.sweep_page import short

TRAINED = Plan(
    "train", batch=32, sequence=1024, tensor_parallel=2, pipeline_parallel=2, data_parallel=2, micro_batches=8, virtual_stages=4, recompute="selective", zero=1,
    overlap="products",
)  # fmt: skip


@pytest.fixture(scope="module")
def prices() -> Prices:
    return Prices(load_gpu("h100"))


def test_the_page_of_a_training_step_says_how_it_is_cut_up_and_what_overlaps(prices: Prices) -> None:
    found = project_model(prices, decoder_of("llama3_8b"), TRAINED)
    page = render_model(found, [], prices.spec)
    for said in (
        "8 micro-batches a replica, 2 sequences each", "2 stages of 4 pieces of its layers in turn (virtual stages)", "run beside products", "ZeRO 1", "selective recomputation",
        "runs beside computation and costs nothing", "of one micro-batch of 8 through all 2 stages", "checkpoints",
    ):  # fmt: skip
        assert said in page
    assert "other requests" not in page


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"virtual_stages": 1}, "one piece of its layers"), ({"overlap": "none"}, "are waited for"), ({"zero": 0}, "whole state"), ({"recompute": "full"}, "full recomputation"),
        ({"scores": "eager"}, "scores in memory"),
    ],
)  # fmt: skip
def test_what_a_training_step_is_run_with_follows_the_plan(changed: dict, said: str) -> None:
    values = {name: getattr(TRAINED, name) for name in TRAINED.__dataclass_fields__} | changed
    assert said in schedule_of(Plan(**values))
    assert said not in schedule_of(TRAINED)


def test_a_served_step_says_whose_kernels_it_has_and_what_the_cache_is_in() -> None:
    plan = Plan("prefill", batch=4, tensor_parallel=4, kv_dtype="fp8", chunk=512, framework="trtllm", engine="1.0", all_reduce="nccl")  # fmt: skip
    said = schedule_of(plan)
    for part in ("trtllm 1.0's kernels", "keys and values in fp8", "by NCCL", "chunks of 512 tokens"):
        assert part in said
    assert "ZeRO" not in said
    assert "micro-batch" not in said


def test_collectives_of_few_bytes_are_limited_by_latency_and_not_by_links(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    small = dict(limiters(project_model(prices, network, Plan("decode", batch=1, tensor_parallel=8))))
    large = dict(limiters(project_model(prices, network, Plan("prefill", batch=8, sequence=4096, tensor_parallel=8))))
    assert small[BETWEEN_GPUS] > 0.1
    assert "links" not in small
    assert large["links"] > 10 * large.get(BETWEEN_GPUS, 0.0)


def test_another_power_limit_is_said(prices: Prices) -> None:
    found = project_model(prices, decoder_of("llama3_8b"), Plan("decode"))
    limited = Prices(prices.spec, 400.0, one_clock=True)
    assert power_of(prices) == []
    assert dict(lines_of(found, power_of(limited)))["power limit"].startswith("400 W a board in place of its 700")
    assert "400 W a board" in render_model(found, [], prices.spec, conditions=power_of(limited))


def test_the_page_names_the_sources_of_the_network_and_of_the_gpus_values(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(["project", "llama3_8b", "--gpu", "h100:1", "--phase", "decode", "-o", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "<h2>Sources</h2>" in text
    assert "Grattafiori et al." in text
    assert f"{evidence_of_gpu('h100')['datasheet']} datasheet" in text


def test_figures_of_a_page_have_no_exponents() -> None:
    assert [short(value) for value in (999.4, 999.6, 1000.4, 0.1234)] == ["999", "1,000", "1,000", "0.123"]


def test_rows_of_training_and_of_other_power_limits_say_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["project", "llama3_8b", "--gpu", "h100:2", "--phase", "train", "--batch", "2", "--recompute", "full", "--zero", "1", "--format", "json"]  # fmt: skip
    assert run([*words, "--dp", "2"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["recompute"], row["zero"], row["scores"]) == ("full", 1, "fused")
    assert "power_limit_watts" not in row
    page = tmp_path / "sweep.html"
    sweep = ["project", "llama3_8b", "--phase", "decode", "--sweep", "batch=1,2", "--power-limit-watts", "300", "--one-clock", "-o", str(page)]  # fmt: skip
    assert run(sweep) == 0
    same = capsys.readouterr().out.split("\n\n")[0]
    assert "power_limit_watts" in same and "300" in same
    assert "power_limit_watts 300" in page.read_text("utf-8")


def test_rows_that_an_older_version_kept_without_a_column_are_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "rows.csv"
    words = ["project", "llama3_8b", "--phase", "decode", "--resume", str(kept)]
    assert run([*words, "--sweep", "batch=1,2"]) == 0
    lines = kept.read_text("utf-8").splitlines()
    stripped = [line.replace('"launch": "default", ', "") for line in lines]
    assert stripped != lines
    kept.write_text("\n".join(stripped) + "\n", encoding="utf-8")
    assert run([*words, "--sweep", "batch=1,2,4"]) == 0
    assert len(capsys.readouterr().out.strip().splitlines()) > 5
