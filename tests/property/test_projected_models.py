"""Laws of projected models: what adds up, what grows, what a sweep keeps, what exported tables hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cli import run
from gpusim.collective.shape import Collective
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu, own_claims
from gpusim.project.bands import factor_of, region_of
from gpusim.project.config_file import decoder_of_file
from gpusim.project.decoder import Decoder
from gpusim.project.footprint import footprint_of, parameters_of
from gpusim.project.layers import head_operators, stages_of
from gpusim.project.limits import limiters, remedies
from gpusim.project.load import steps_of
from gpusim.project.network import decoder_of
from gpusim.project.part import interval_of, seconds_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.records import operator_records
from gpusim.project.requests import project_request
from gpusim.project.sweep import Kept, axes_of, pareto
from gpusim.project.whole import project_model
from gpusim.report.model_page import render_model
from gpusim.tile.operators import MemoryOp

#: Parameters as published by who made the networks.
PUBLISHED = {
    "llama3_8b": 8.03e9, "llama3_70b": 70.6e9, "qwen2.5_7b": 7.62e9, "qwen3_8b": 8.2e9, "qwen3_30b_a3b": 30.5e9, "mixtral_8x7b": 46.7e9,
    "deepseek_v3": 671e9, "gpt_oss_20b": 20.9e9, "gpt_oss_120b": 116.8e9,
}  # fmt: skip
ACTIVE = {"mixtral_8x7b": 12.9e9, "deepseek_v3": 37e9, "qwen3_30b_a3b": 3.3e9}


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def gpusim(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def call(*words: str) -> Said:
        code = run([*words])
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def prices() -> Prices:
    return Prices(load_gpu("h100"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_published(name: str) -> None:
    everything, active = parameters_of(decoder_of(name))
    assert everything == pytest.approx(PUBLISHED[name], rel=0.02)
    if name in ACTIVE:
        # Counted with the embedding's table.
        network = decoder_of(name)
        assert active + network.vocabulary * network.hidden == pytest.approx(ACTIVE[name], rel=0.05)


@given(sequences=st.integers(1, 6), length=st.integers(1, 300), chunk=st.integers(0, 2000))
def test_chunks_of_a_prefill_read_every_token_once(sequences: int, length: int, chunk: int) -> None:
    loads = steps_of(Plan("prefill", batch=sequences, sequence=length, chunk=chunk))
    assert sum(load.tokens for load in loads) == sequences * length
    assert sum(load.ends for load in loads) == sequences
    assert all(load.tokens <= chunk for load in loads) or not chunk or chunk >= sequences * length
    assert all(1 <= group.queries <= group.keys <= length for load in loads for group in load.groups)
    # Under a causal mask each token meets itself and those before it, however the prompt is cut.
    met = sum(
        group.sequences * sum(range(group.keys - group.queries + 1, group.keys + 1)) for load in loads for group in load.groups
    )  # fmt: skip
    assert met == sequences * length * (length + 1) // 2


@given(layers_shared_by=st.integers(1, 32))
def test_stages_hold_every_layer_once_and_evenly(layers_shared_by: int) -> None:
    stages = stages_of(decoder_of("gpt_oss_20b"), min(layers_shared_by, 24))
    assert [kind for stage in stages for kind in stage] == list(stages_of(decoder_of("gpt_oss_20b"), 1)[0])
    assert max(map(len, stages)) - min(map(len, stages)) <= 1


def test_a_step_is_the_sum_of_its_operators(prices: Prices) -> None:
    found = project_model(prices, decoder_of("llama3_8b"), Plan("decode", batch=8, sequence=1000))
    assert found.step.seconds == pytest.approx(seconds_of(found.items))
    assert sum(row["ms_in_all"] for row in operator_records(found)) == pytest.approx(1e3 * found.step.seconds, rel=1e-2)
    assert found.step.low_seconds < found.step.seconds < found.step.high_seconds
    # Errors that are alike add up: the interval of one type of operator is as wide as each of them, of several less.
    products = [item for item in found.items if type(item.operator.op).__name__ == "GemmOp"]
    alone = interval_of(products[:1])
    assert interval_of(products).high_seconds / interval_of(products).seconds == pytest.approx(
        alone.high_seconds / alone.seconds, rel=0.05
    )


def test_more_work_takes_longer_and_more_gpus_hold_less_each(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    base = Plan("decode", batch=8, sequence=1000)
    step = project_model(prices, network, base)
    assert project_model(prices, network, replace(base, batch=64)).step.seconds > step.step.seconds
    assert project_model(prices, network, replace(base, sequence=8000)).step.seconds > step.step.seconds
    shared = project_model(prices, network, replace(base, tensor_parallel=4))
    assert shared.footprint.weight_bytes == pytest.approx(step.footprint.weight_bytes / 4, rel=0.01)
    assert shared.communication_seconds > 0 == step.communication_seconds
    assert shared.step.seconds < step.step.seconds


def test_kernels_that_read_shared_keys_for_each_head_slow_the_generation_of_models_that_share_them(
    prices: Prices,
) -> None:
    network = decoder_of("llama3_8b")  # four query heads on one of keys
    alone = replace(network, kv_heads=network.heads)

    def seconds(of: Decoder, phase: str, reads: str) -> float:
        return project_model(prices, of, Plan(phase, batch=64, sequence=4096, reads=reads)).step.seconds

    assert seconds(network, "decode", "each") > 1.5 * seconds(network, "decode", "shared")
    assert seconds(alone, "decode", "each") < 1.1 * seconds(alone, "decode", "shared")
    assert seconds(network, "prefill", "each") == seconds(network, "prefill", "shared")
    with pytest.raises(UsageError, match="reads is 'both': known are shared, each"):
        Plan("decode", reads="both")


def test_sums_by_nccl_take_longer_than_by_a_frameworks_own_kernels_where_messages_are_small() -> None:
    def seconds(all_reduce: str, tensor_parallel: int) -> float:
        plan = Plan("decode", batch=16, sequence=512, tensor_parallel=tensor_parallel, all_reduce=all_reduce)
        return project_model(Prices(load_gpu("h100")), decoder_of("llama3_70b"), plan).step.seconds

    assert seconds("nccl", 8) > 1.05 * seconds("custom", 8)
    assert seconds("nccl", 1) == seconds("custom", 1)
    with pytest.raises(UsageError, match="all_reduce is 'mpi': known are custom, nccl"):
        Plan("decode", all_reduce="mpi")


@pytest.mark.parametrize(("phase", "sequence", "region"), [("prefill", 128, "short prompts"), ("prefill", 4096, "prompts"), ("decode", 512, "generation"), ("train", 512, "training")])  # fmt: skip
def test_no_interval_of_a_model_is_narrower_than_published_models_are_off(
    phase: str, sequence: int, region: str
) -> None:
    found = project_model(Prices(load_gpu("h100")), decoder_of("llama3_8b"), Plan(phase, sequence=sequence))
    assert region_of(phase, sequence) == region
    factor = factor_of("hopper", region)
    assert factor > 1.05
    assert found.step.high_seconds >= 0.999 * factor * found.step.seconds
    assert found.step.low_seconds <= 1.001 * found.step.seconds / factor


def test_a_pipeline_is_paced_by_its_slowest_stage(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    one = project_model(prices, network, Plan("prefill", batch=4, sequence=512, pipeline_parallel=2))
    four = project_model(prices, network, Plan("prefill", batch=4, sequence=512, pipeline_parallel=2, micro_batches=4))
    assert one.bubble_seconds == pytest.approx(one.step.seconds / 2, rel=1e-6)
    assert four.bubble_seconds < one.bubble_seconds
    # Four micro-batches and two stages: five turns of the slower stage at most.
    assert four.step.seconds <= 5 / 2 * 1.2 * seconds_of(four.items)


def test_training_costs_three_forward_passes_and_holds_the_optimizer(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    forward = project_model(prices, network, Plan("prefill", batch=2, sequence=1024))
    trained = project_model(prices, network, Plan("train", batch=2, sequence=1024))
    assert 2.5 < trained.step.seconds / forward.step.seconds < 6
    again = project_model(prices, network, Plan("train", batch=2, sequence=1024, recompute="full"))
    assert again.step.seconds > trained.step.seconds
    assert again.footprint.activation_bytes < trained.footprint.activation_bytes
    replicas = Plan("train", batch=4, sequence=1024, data_parallel=4)
    whole, shared = (footprint_of(network, replace(replicas, zero=zero), 80e9) for zero in (0, 1))
    assert whole.training_bytes == pytest.approx(8.03e9 * 16, rel=0.01)
    assert shared.training_bytes == pytest.approx(8.03e9 * (4 + 12 / 4), rel=0.01)


def test_the_loss_is_taken_over_shared_out_logits() -> None:
    network = decoder_of("llama3_8b")
    ((step,),) = [steps_of(Plan("train", batch=2, sequence=1024))]
    alone, shared = (
        {each.name: each.op for each in head_operators(network, plan, step, step.tokens)}
        for plan in (Plan("train", batch=2, sequence=1024, tensor_parallel=ways) for ways in (1, 4))
    )
    assert isinstance(alone["loss"], MemoryOp) and isinstance(shared["loss"], MemoryOp)
    assert alone["loss"].read_bytes == 4 * shared["loss"].read_bytes == 3 * 4 * 2048 * network.vocabulary
    told = shared["all-reduce of the loss"]
    assert isinstance(told, Collective) and told.message_bytes == 4 * 2048
    assert "all-gather" not in shared and "sampling" not in alone
    generated = head_operators(
        network, Plan("decode", tensor_parallel=4), steps_of(Plan("decode", tensor_parallel=4))[0]
    )
    assert {"all-gather", "sampling"} <= {each.name for each in generated}


def test_a_request_is_its_prefill_and_its_tokens(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    found = project_request(prices, network, Plan("request", batch=4, sequence=512, output=101))
    assert found.seconds.seconds == pytest.approx(found.first.step.seconds + 100 * found.per_token.seconds)
    assert found.first.footprint.kv_bytes == pytest.approx(4 * 624 * 32 * 2 * 8 * 128 * 2)  # 513 + 100 in pages of 16
    with pytest.raises(UsageError, match="give --output"):
        project_request(prices, network, Plan("request"))


def test_what_limits_is_what_helps(prices: Prices) -> None:
    network, plan = decoder_of("llama3_8b"), Plan("decode", batch=1, sequence=100)
    found = project_model(prices, network, plan)
    assert limiters(found)[0][0] == "DRAM"
    tried = remedies(prices, network, plan, found)
    assert tried[0].name == "DRAM bandwidth"
    assert 0.1 < tried[0].saved < 0.2


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"tensor_parallel": 3}, "cannot be shared evenly by 3 GPUs"), ({"pipeline_parallel": 33}, "33 stages"), ({"expert_parallel": 2, "data_parallel": 2, "batch": 2}, "no experts"),
    ],
)  # fmt: skip
def test_a_network_that_cannot_be_shared_out_so_is_refused(prices: Prices, plan: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        project_model(prices, decoder_of("llama3_8b"), Plan("decode", **plan))


@pytest.mark.parametrize(("name", "most"), [("llama3_8b", "2,147,483,647"), ("gpt_oss_20b", "536,870,911")])
def test_more_tokens_at_once_than_products_have_rows_are_refused_by_the_names_of_the_options(
    prices: Prices, name: str, most: str
) -> None:
    with pytest.raises(UsageError, match=f"--batch 1000000 of --sequence 100000 .* at most {most}"):
        project_model(prices, decoder_of(name), Plan("prefill", batch=1_000_000, sequence=100_000))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"phase": "sleep"}, "phase is 'sleep'"), ({"phase": "decode", "batch": 0}, "batch is 0"), ({"phase": "decode", "batch": 3, "data_parallel": 2}, "shared evenly by 2"),
        ({"phase": "mixed"}, "--chunk"), ({"phase": "train", "dtype": "int8"}, "training in int8"), ({"phase": "decode", "expert_parallel": 3}, "must divide"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(values: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Plan(**values)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30), st.booleans()), max_size=25))
def test_the_pareto_front_is_what_nothing_beats(points: list[tuple[int, int, bool]]) -> None:
    rows = [{"ms": ms, "rate": rate, "fits": fits} for ms, rate, fits in points]
    front = pareto(rows, "ms", "rate", lambda row: row["fits"])
    usable = [row for row in rows if row["fits"]]
    best = {
        (row["ms"], row["rate"]) for row in usable
        if not any((o["ms"] <= row["ms"] and o["rate"] > row["rate"]) or (o["ms"] < row["ms"] and o["rate"] >= row["rate"]) for o in usable)
    }  # fmt: skip
    assert {(row["ms"], row["rate"]) for row in front} == best


def test_a_sweep_that_was_cut_off_goes_on(gpusim: Callable[..., Said], tmp_path: Path) -> None:
    kept = tmp_path / "rows.jsonl"
    words = [
        "project",
        "llama3_8b",
        "--phase",
        "decode",
        "--sweep",
        "batch=1..8",
        "--resume",
        str(kept),
        "--format",
        "json",
    ]
    whole = gpusim(*words)
    assert whole.exit_code == 0
    assert [row["batch"] for row in json.loads(whole.stdout)] == [1, 2, 4, 8]
    lines = kept.read_bytes().splitlines(keepends=True)
    changed = json.loads(lines[0])
    changed["row"]["step_ms"] = 12345.0
    kept.write_bytes(json.dumps(changed).encode() + b"\n" + lines[1] + lines[2][:40])
    again = gpusim(*words)
    rows = json.loads(again.stdout)
    assert rows[0]["step_ms"] == 12345.0  # taken from the file
    assert rows[1:] == json.loads(whole.stdout)[1:]
    assert len(kept.read_bytes().splitlines()) == 4
    kept.write_text('{"identity": 3}\n')
    refused = gpusim(*words)
    assert refused.exit_code == 2
    assert "line 1: no row of a sweep" in refused.stderr


def test_a_changed_plan_or_gpu_is_no_row_of_a_file(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "rows.jsonl")
    kept.add("a", {"step_ms": 1.0})
    assert Kept(tmp_path / "rows.jsonl").get("a") == {"step_ms": 1.0}
    assert Kept(tmp_path / "rows.jsonl").get("b") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch", "write NAME=VALUE"),
        ("size=3", "write NAME=VALUE"),
        ("batch=x", "no number"),
        ("batch=8..2", "no range"),
        ("batch=1..2..3", "no number"),
    ],
)
def test_an_axis_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        axes_of([text])


CONFIG = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "vocab_size": 151936,
}  # fmt: skip


def test_a_configuration_file_is_the_network_that_it_describes(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    known = decoder_of("qwen3_30b_a3b")
    assert replace(decoder_of_file(path), name=known.name, source=known.source) == known


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "no object"), ("{", "no JSON"), (json.dumps(CONFIG | {"hidden_size": None}), "hidden_size or n_embd is missing"),
        (json.dumps(CONFIG | {"hidden_size": -3}), "hidden_size is -3"), (json.dumps(CONFIG | {"num_key_value_heads": 5}), "no multiple of 5"), ("[" * 100_000, "no JSON"),
    ],
)  # fmt: skip
def test_a_file_that_describes_no_network_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        decoder_of_file(path)


def test_the_command_prints_records_lines_and_a_page(gpusim: Callable[..., Said], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["project", "llama3_8b", "--gpu", "h100:2", "--batch", "4", "--sequence", "512", "--output", "64"]
    said = gpusim(*words, "-o", str(page))
    assert said.exit_code == 0, said.stderr
    assert "first token" in said.stdout
    assert "2 x h100: tensor parallel 2" in said.stdout
    text = page.read_text()
    assert "What would help" in text
    assert "<script" not in text
    assert "http" not in text
    changed = gpusim(*words, "--what-if", "dram.peak_bytes_per_ns=5000", "--format", "json")
    now, then = json.loads(changed.stdout)
    assert then["tpot_ms"] < now["tpot_ms"]
    assert then["gpu"] == "h100[dram.peak_bytes_per_ns=5000]"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["llama9"], "no network is called 'llama9'"), (["meta-llama/Llama-3.1-70B"], "did you mean llama3_70b or"), (["resnet50"], "no decoder"), (["llama3_8b", "--gpu", "h100:x"], "after the colon"),
        (["llama3_8b", "--gpu", "h100:4", "--tp", "2"], "--gpu says 4 GPUs"), (["llama3_8b", "--pareto"], "go with --sweep"),
        (["llama3_8b", "--sweep", "batch=1,2", "--helps"], "--helps with --sweep"), (["nowhere.json"], "No such file"),
    ],
)  # fmt: skip
def test_the_command_refuses_in_one_line(gpusim: Callable[..., Said], words: list[str], message: str) -> None:
    refused = gpusim("project", *words)
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_tables_for_vidur_have_the_columns_that_its_loader_selects_by(
    gpusim: Callable[..., Said], tmp_path: Path
) -> None:
    said = gpusim("project", "export", "vidur", "llama3_8b", "--tp", "2", "--most-tokens", "256", "-o", str(tmp_path))
    assert said.exit_code == 0, said.stderr
    products, attention, sums = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("mlp", "attention", "all_reduce"))
    mine = products[
        (products.n_head == 32)
        & (products.n_kv_head == 8)
        & (products.n_embd == 4096)
        & products.use_gated_mlp
        & (products.num_tensor_parallel_workers == 2)
    ]
    assert len(mine) == len(products) > 10
    assert (mine.sort_values("num_tokens")["time_stats.mlp_up_proj.median"].diff().dropna() > -1e-2).all()
    decoded = attention[attention.prefill_chunk_size == 0]
    assert (decoded["time_stats.attn_decode.median"] > 0).all()
    assert (attention[attention.prefill_chunk_size > 0]["time_stats.attn_prefill.median"] > 0).all()
    assert set(sums["size"] / 4096 / 2) == set(products.num_tokens)
    refused = gpusim("project", "export", "vidur", "mixtral_8x7b", "-o", str(tmp_path / "none"))
    assert refused.exit_code == 2
    assert not (tmp_path / "none").exists()


def test_tables_for_aiconfigurator_have_a_row_a_shape(gpusim: Callable[..., Said], tmp_path: Path) -> None:
    said = gpusim(
        "project",
        "export",
        "aiconfigurator",
        "qwen3_30b_a3b",
        "--tp",
        "1,2",
        "--most-tokens",
        "64",
        "-o",
        str(tmp_path),
    )
    assert said.exit_code == 0, said.stderr
    keys = {
        "gemm_perf": ["gemm_dtype", "m", "n", "k"],
        "moe_perf": ["moe_dtype", "num_tokens", "moe_tp_size", "moe_ep_size"],
        "nccl_perf": ["op_name", "num_gpus", "message_size"],
    }
    for name, columns in keys.items():
        rows = pd.read_csv(tmp_path / f"{name}.txt")
        assert not rows.duplicated(columns).any()
        assert (rows.latency > 0).all()


def test_the_page_of_a_request_says_what_its_prompts_take_and_that_shares_are_of_a_token() -> None:
    spec = load_gpu("h100")
    found = project_request(Prices(spec), decoder_of("llama3_8b"), Plan("request", batch=16, sequence=4096, output=32))
    page = render_model(found, [], spec)
    share = found.first.step.seconds / found.seconds.seconds
    assert f"{share:.0%} of it reads the prompts" in page
    assert limiters(found.first)[0][0] != limiters(found.middle)[0][0]  # the two are limited by different units
    assert "What limits it, while generating" in page
    step = render_model(found.first, [], spec)
    assert "reads the prompts" not in step and "while generating" not in step


def test_the_page_shows_what_if_beside_and_what_a_users_gpu_states(tmp_path: Path) -> None:
    own = tmp_path / "next.toml"
    own.write_text(
        'inherits = "h100"\n[dram]\npeak_bytes_per_ns = { value = 5000, kind = "guess", source = "a plan of <2027>" }\n'
    )
    page = tmp_path / "page.html"
    words = ["llama3_8b", "--phase", "decode", "--gpu", str(own), "--what-if", "clock_hz=2.2e9", "-o", str(page)]
    said = run(["project", *words])
    assert said == 0
    text = page.read_text()
    assert "dram.peak_bytes_per_ns" in text and "a plan of &lt;2027&gt;" in text
    assert "next[clock_hz=" in text
    assert own_claims("h100") == {} and list(own_claims(own)) == ["dram.peak_bytes_per_ns"]


@pytest.mark.parametrize("gpu", ["v100", "t4"])
def test_a_gpu_without_bf16_runs_models_in_fp16_and_refuses_bf16(gpu: str, capfd: pytest.CaptureFixture) -> None:
    model = ["project", "llama3_8b", "--gpu", f"{gpu}:4", "--phase", "decode"]
    assert run([*model, "--dtype", "fp16"]) == 0
    assert run([*model, "--dtype", "int4_wo"]) == 0
    assert run(model) != 0 and "take fp16" in capfd.readouterr().err


def test_a_sweep_with_limits_leaves_the_plans_that_keep_them_and_says_how_far_the_others_are(
    gpusim: Callable[..., Said],
) -> None:
    words = ["llama3_8b", "--gpu", "h100:1", "--sequence", "512", "--output", "64", "--sweep", "batch=1..64"]
    whole = json.loads(gpusim("project", *words, "--format", "json").stdout)
    most = sorted(row["ttft_ms"] for row in whole)[3]
    kept = json.loads(gpusim("project", *words, "--ttft-ms", str(most), "--tpot-ms", "1000", "--format", "json").stdout)
    wanted = sorted((row for row in whole if row["ttft_ms"] <= most), key=lambda row: -row["tokens_per_s_per_gpu"])
    assert kept == wanted and len(kept) == 4
    none = gpusim("project", *words, "--tpot-ms", "0.001")
    assert none.exit_code == 3 and f"the least is {min(row['tpot_ms'] for row in whole):.4g}" in none.stderr
    assert gpusim("project", *words, "--phase", "train", "--tpot-ms", "1").exit_code == 2
