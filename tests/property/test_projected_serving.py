"""Laws of a projected server: every request is answered once, budgets hold, what a scheduler does shows in its
steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.cli import run
from gpusim.errors import NoDataError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.project.frameworks import framework_of
from gpusim.project.layers import kinds_of, layer_operators
from gpusim.project.load import steps_of
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.server import Server, as_many_as_fit, server_of
from gpusim.project.serving import _Played, project_serving
from gpusim.project.tuned import tuned
from gpusim.project.whole import project_model
from gpusim.tile.sorting import SortOp

NETWORK = decoder_of("llama3_8b")
HELD = Plan("serve", batch=as_many_as_fit(1), sequence=512, output=40, framework="trtllm")


@pytest.fixture(scope="module")
def prices() -> Prices:
    return Prices(load_gpu("h100"))


class _Counted(_Played):
    """The scheduler alone: steps are kept and not priced."""

    def __init__(self, plan: Plan, server: Server) -> None:
        super().__init__(None, NETWORK, plan, server)  # type: ignore[arg-type]
        self.took: list[tuple[tuple[tuple[int, int, int], ...], int, int, int]] = []
        self.waited = 0

    def _took(
        self, prompts: tuple[tuple[int, int, int], ...], active: int, keys: int, count: int, waiting: int
    ) -> None:
        self.took.append((prompts, active, keys, count))
        self.waited += count * waiting


def _server(sequences: int, tokens: int, chunked: bool, mixed: bool) -> Server:
    return Server(sequences, tokens, chunked, mixed, (), sequences, None)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(
    waiting=st.integers(1, 60), length=st.integers(1, 50), output=st.integers(1, 30), sequences=st.integers(1, 20), tokens=st.integers(50, 120),
    chunked=st.booleans(), mixed=st.booleans(),
)  # fmt: skip
def test_every_prompt_is_read_and_every_token_generated_once_within_both_budgets(
    waiting: int, length: int, output: int, sequences: int, tokens: int, chunked: bool, mixed: bool
) -> None:
    played = _Counted(replace(HELD, sequence=length, output=output), _server(sequences, tokens, chunked, mixed))
    played.run(waiting)
    read = sum(count * sum(group[0] * group[1] for group in prompts) for prompts, _, _, count in played.took)
    generated = sum(count * active for _, active, _, count in played.took)
    assert read == waiting * length
    assert generated == waiting * (output - 1)  # the first token comes with the prompt
    assert played.waited == generated if mixed else played.waited >= generated  # reading alone holds the others up
    for prompts, active, keys, _ in played.took:
        assert active + sum(group[0] for group in prompts if group[2] == length) <= sequences + (not mixed) * sequences
        assert sum(group[0] * group[1] for group in prompts) + active <= max(tokens, active)
        assert not active or length <= keys <= length + output
        assert mixed or not prompts or not active  # those in progress wait for prompts
        assert chunked or all(group[1] == length for group in prompts)


def test_the_host_works_after_the_gpu_or_beside_it() -> None:
    after, beside, old = (
        framework_of(replace(HELD, framework=name, engine=engine))
        for name, engine in (("vllm", "0.13"), ("trtllm", ""), ("vllm", "v0"))
    )
    assert after.step_of(0.01, 100, "h100") == pytest.approx(0.01 + after.step_seconds + 100 * after.sequence_seconds)
    assert beside.step_of(0.01, 10, "h100") == 0.01
    slow = replace(after, overlapped=True, streaming_seconds=0.0)
    assert slow.step_of(0.01, 4000, "b200") == slow.host_seconds(4000, "b200") < slow.step_of(0.01, 4000, "gb200")
    before = framework_of(replace(HELD, engine="1.0"))
    assert before.step_of(0.01, 1000, "b200") == before.host_seconds(1000, "b200") > 0.01
    assert before.step_of(0.05, 1000, "gb200", 0.03) > before.step_of(0.05, 1000, "b200", 0.03) == 0.05
    assert beside.step_of(0.01, 1000, "b200", 0.02) == 0.02 < beside.step_of(0.01, 1000, "gb200", 0.02)
    assert old.host_seconds(1, "h100") > after.host_seconds(1, "h100")
    paged, handed = (framework_of(replace(HELD, framework="vllm", engine=engine)) for engine in ("0.5", "0.4"))
    assert paged.host_seconds(16, "h100", 3200) - paged.host_seconds(16, "h100") == pytest.approx(3200 * 0.33e-6)
    assert paged.step_of(0.01, 16, "h100", pages=3200) > old.step_of(0.01, 16, "h100", pages=3200)
    assert paged.step_of(0.01, 16, "h100", shared=True) == paged.step_of(0.01, 16, "h100")
    assert handed.step_of(0.01, 16, "h100", shared=True) == pytest.approx(paged.step_of(0.01, 16, "h100") + 1.1e-3)
    assert paged.host_seconds(16, "a100_40gb", 3200) == pytest.approx(1.47 * paged.host_seconds(16, "h100", 3200))
    assert old.host_seconds(16, "a100_40gb") == old.host_seconds(16, "h100")  # set beside both
    newest = framework_of(replace(HELD, framework="vllm"))
    ended = newest.step_of(0.01, 100, "h100")
    assert ended == pytest.approx(0.01 + newest.waited_seconds(100, "h100")) and ended < after.step_of(
        0.01, 100, "h100"
    )
    assert newest.waited_seconds(100, "h100") - newest.waited_seconds(0, "h100") == pytest.approx(
        100 * newest.ending_seconds
    )
    quick = replace(newest, streaming_seconds=0.0)
    assert quick.step_of(0.001, 100, "h100") == pytest.approx(
        quick.host_seconds(100, "h100") + quick.waited_seconds(100, "h100")
    )
    assert newest.step_of(0.001, 1000, "h100") == pytest.approx(
        1000 * newest.streaming_seconds
    )  # no token waits to be sent for ever
    assert after.step_of(0.001, 1000, "h100") == pytest.approx(1000 * after.streaming_seconds)
    with pytest.raises(UsageError, match="leave out --engine"):
        replace(HELD, framework="sglang", engine="v0")


def test_a_named_frameworks_request_waits_for_its_host(prices: Prices) -> None:
    plan = Plan("request", batch=4, sequence=128, output=3)
    alone, *both = (
        project_request(prices, NETWORK, replace(plan, framework=name, engine=engine))
        for name, engine in (("", ""), ("vllm", "0.13"), ("vllm", ""))
    )
    served, beside = both
    host = framework_of(replace(plan, framework="vllm", engine="0.13")).host_seconds(4, "h100")
    assert alone.per_token.seconds < beside.per_token.seconds < served.per_token.seconds
    assert served.per_token.seconds == pytest.approx(alone.per_token.seconds + host)
    assert served.seconds.seconds == pytest.approx(alone.seconds.seconds + 3 * host)


def test_one_of_the_most_probable_tokens_costs_a_sort_where_the_engine_has_no_kernel_for_it(prices: Prices) -> None:
    plan = Plan("decode", batch=64, sequence=512, framework="vllm", sampling="top")
    newest, sorting, greedy = (
        project_model(prices, NETWORK, each)
        for each in (plan, replace(plan, engine="0.15"), replace(plan, engine="0.15", sampling="greedy"))
    )
    assert newest.step.seconds == greedy.step.seconds
    sort = prices.of(SortOp(64, NETWORK.vocabulary)).seconds
    assert sorting.step.seconds == pytest.approx(greedy.step.seconds + sort)
    assert sort > 0.5e-3  # whatever the network: as published


def test_one_request_alone_takes_what_a_request_takes(prices: Prices) -> None:
    plan = replace(HELD, batch=1, sequence=512, output=64, launch="graphs")
    alone = project_request(prices, NETWORK, replace(plan, phase="request"))
    served = project_serving(prices, NETWORK, plan, requests=1)
    assert served.seconds.seconds == pytest.approx(alone.seconds.seconds, rel=0.02)
    assert served.per_token.seconds == pytest.approx(alone.per_token.seconds, rel=0.02)
    assert served.steps == 64 and served.server.sequences == 1


def test_a_batch_is_padded_to_the_graph_that_runs_it(prices: Prices) -> None:
    server = server_of(NETWORK, HELD, "h100", 85e9)
    assert [server.padded(batch) for batch in (1, 3, 256, 257, 385)] == [1, 4, 256, 384, 512]
    # The largest graph is of as many sequences as the server takes, though a larger one was asked for.
    long = server_of(NETWORK, replace(HELD, sequence=4096, output=4096), "h100", 85e9)
    assert long.sequences <= long.graphs[-1] < 128 and long.graphs[-1] % 32 == 0
    # Sequences that fill a graph up have no keys to read.
    whole = project_serving(prices, NETWORK, replace(HELD, batch=384, output=200), requests=384)
    padded = project_serving(prices, NETWORK, replace(HELD, batch=260, output=200), requests=260)
    assert padded.per_token.seconds > 0.75 * whole.per_token.seconds  # products have 384 rows
    assert padded.per_token.seconds < whole.per_token.seconds


def test_memory_or_the_framework_limits_how_many_are_in_progress() -> None:
    capacity = 85_899_345_920.0
    small, large = (
        server_of(NETWORK, replace(HELD, sequence=length, output=length), "h100", capacity) for length in (100, 20_000)
    )
    assert large.sequences == large.memory_sequences < small.sequences
    half = server_of(NETWORK, replace(HELD, sequence=20_000, output=20_000, kv_dtype="fp8"), "h100", capacity)
    assert half.sequences == pytest.approx(2 * large.sequences, abs=1)
    assert server_of(NETWORK, replace(HELD, batch=7), "h100", capacity).sequences == 7
    # Without pieces a step has room for a whole prompt.
    assert large.tokens >= 20_000 and not large.chunked
    assert server_of(NETWORK, replace(HELD, framework="vllm"), "h100", capacity).tokens == 8192
    assert server_of(NETWORK, replace(HELD, framework="vllm"), "a100_80gb", capacity).tokens == 2048
    assert not server_of(NETWORK, replace(HELD, framework="sglang"), "h100", capacity).mixed
    assert large.footprint.total_bytes <= capacity


def test_a_full_server_gives_more_than_one_request_after_the_other_and_less_than_free_prompts(prices: Prices) -> None:
    served = project_serving(prices, NETWORK, HELD, requests=200)
    one = project_serving(prices, NETWORK, replace(HELD, batch=1), requests=4)
    assert served.output_tokens_per_second > 5 * one.output_tokens_per_second
    step = project_model(
        prices, NETWORK, Plan("decode", batch=served.server.sequences, sequence=532, framework="trtllm")
    )
    assert served.output_tokens_per_second < served.server.sequences / step.step.seconds
    assert 0 < served.prompt_share <= 1
    assert served.seconds.low_seconds < served.seconds.seconds < served.seconds.high_seconds
    assert served.joules > 0


def test_a_pipelines_stages_work_on_groups_of_sequences_in_turn() -> None:
    machine = Prices(load_gpu("rtx_pro_6000"))
    one = project_serving(machine, NETWORK, HELD, requests=100)
    two = project_serving(machine, NETWORK, replace(HELD, pipeline_parallel=2), requests=100)
    assert 1.2 < two.output_tokens_per_second / one.output_tokens_per_second < 2.2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--output", "0"), 2, "give --output-tokens"), (("--phase", "decode", "--requests", "3"), 2, "--requests with --phase decode has no meaning"),
        (("--chunk", "64"), 2, "leave them out with --phase serve"), (("--requests", "300000"), 2, "300,000 requests: at most 200,000"),
        (("--framework", "trtllm", "--step-tokens", "100"), 2, "give --step-tokens 2048 or more"), (("--gpu", "t4"), 3, "are left for keys and values"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, message: str
) -> None:
    given_phase = () if "--phase" in words else ("--phase", "serve")
    assert run(["project", "llama3_8b", *given_phase, *words]) == code
    assert message in capsys.readouterr().err


def test_a_server_is_printed_swept_and_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["project", "llama3_8b", "--phase", "serve", "--sequence", "200", "--output", "50", "--requests", "300"]

    def said(*more: str) -> str:
        assert run([*words, *more]) == 0
        return capsys.readouterr().out

    assert "300 sequences at once at most, all requests (there is room for " in said()
    assert "32 sequences at once at most (memory would hold " in said("--batch", "32")
    row: dict[str, Any] = json.loads(said("--format", "json"))[0]
    assert row["phase"] == "serve" and row["output"] == 50 and row["requests"] == 300
    assert row["tokens_per_s"] == pytest.approx(50 * row["requests_per_s"], rel=1e-3)
    rows = json.loads(said("--sweep", "batch=8..32", "--pareto", "--format", "json"))
    assert [each["batch"] for each in rows] == [8, 16, 32]
    pytest.importorskip("jinja2")
    page = tmp_path / "page.html"
    said("-o", str(page), "--what-if", "dram.peak_bytes_per_ns=6000")
    text = page.read_text("utf-8")
    assert "under full load" in text and "in the steps that take most of the time" in text


def test_batches_that_memory_cannot_hold_are_one_row_and_a_note_of_what_was_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        "project",
        "llama3_8b",
        "--gpu",
        "l4",
        "--dtype",
        "fp8",
        "--phase",
        "serve",
        "--sequence",
        "2000",
        "--output",
        "16",
    ]
    words += ["--requests", "64", "--sweep", "batch=8,512,1024"]
    assert run([*words, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    held = rows[1]["memory_batch"]
    assert [row["batch"] for row in rows] == [8, held, held]
    assert run(words) == 0
    out, told = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["8", str(held)]
    assert f"batch 512, 1024 in fp8 on l4: memory holds {held} sequences" in told


def test_not_one_sequence_fits() -> None:
    with pytest.raises(NoDataError, match="give more GPUs"):
        server_of(decoder_of("llama3_70b"), HELD, "h100", 85e9)
    with pytest.raises(UsageError, match="cannot read a prompt"):
        server_of(NETWORK, HELD, "h100", 85e9, tokens=10)


def _launched(plan: Plan, name: str) -> dict[str, Any]:
    loads = steps_of(plan)
    config = decoder_of(name)
    return {each.name: each.op for each in layer_operators(config, plan, loads[0], kinds_of(config)[-1])}


def test_tensorrt_llm_multiplies_prompts_in_8_bits_where_attention_writes_few() -> None:
    plan = Plan("prefill", batch=1, sequence=512, dtype="fp8", kv_dtype="fp8", framework="trtllm")
    assert _launched(plan, "llama3_8b")["attention"].dtype == "fp8"
    for change in (
        {"framework": "vllm"},
        {"reads": "each"},
        {"dtype": "bf16"},
        {"kv_dtype": "bf16"},
        {"phase": "decode"},
    ):
        assert _launched(replace(plan, **change), "llama3_8b")["attention"].dtype == "bf16"


def test_tensorrt_llm_reads_prompts_of_latents_in_the_format_of_their_cache() -> None:
    plan = Plan("prefill", batch=1, sequence=512, kv_dtype="fp8", framework="trtllm")
    held = [
        _launched(replace(plan, framework=framework), "deepseek_v3")["attention"].kv_dtype
        for framework in ("trtllm", "vllm")
    ]
    assert held == ["fp8", ""]


def test_tensorrt_llm_gathers_tokens_unless_experts_are_on_more_gpus_than_a_token_chooses() -> None:
    plan = Plan("decode", batch=256, sequence=512, data_parallel=4, expert_parallel=4, framework="trtllm")
    near, far, other = (
        _launched(each, "qwen3_30b_a3b")
        for each in (plan, replace(plan, data_parallel=16, expert_parallel=16), replace(plan, framework="vllm"))
    )
    assert (near["dispatch"].kind, near["combine"].kind) == ("all_gather", "reduce_scatter")
    assert near["combine"].message_bytes == 2 * 256 * decoder_of("qwen3_30b_a3b").hidden
    assert {far["dispatch"].kind, far["combine"].kind, other["dispatch"].kind, other["combine"].kind} == {"alltoall"}


def test_tensorrt_llms_benchmark_reckons_with_all_gpus_that_share_experts_out() -> None:
    network = decoder_of("deepseek_v3")
    plan = Plan(
        "serve", batch=as_many_as_fit(8), sequence=1000, output=1000, data_parallel=8, expert_parallel=8, dtype="fp8_block", kv_dtype="fp8", framework="trtllm"
    )  # fmt: skip
    # 671 GB of weights and 2 x 129,280 x 7,168 of 16 bits in eight times 141 GB; a sequence has 2,000 latents of 576
    # bytes in 61 layers: 6,000, cut to 4,096, whose steps have as many prompts' tokens.
    assert tuned(network, plan, 141e9, 0.95) == (4096, 8192)
    # A half of the GPUs has little beside one copy.
    assert tuned(network, replace(plan, data_parallel=4, expert_parallel=4), 190e9, 0.95) < (4096, 8192)
    server = server_of(network, plan, "h200", 151.4e9)
    assert (server.sequences, server.tokens) == (server.memory_sequences, 8192)
    # Keys and values of a head on each of more GPUs than there are heads.
    small = decoder_of("llama3_8b")
    one, more = (
        tuned(
            small,
            Plan("serve", batch=as_many_as_fit(1), sequence=1000, output=1000, tensor_parallel=tp, framework="trtllm"),
            80e9 / tp,
            0.9,
        )[0]
        for tp in (8, 16)
    )
    assert one > 1.5 * more


def test_graphs_in_pieces_idle_in_each_layer_and_whole_ones_do_not() -> None:
    config, prices = decoder_of("llama3_8b"), Prices(load_gpu("h100"))
    plan = Plan("decode", batch=4, sequence=256, framework="vllm")
    pieces, whole = (project_model(prices, config, replace(plan, engine=engine)) for engine in ("0.10", "0.13"))
    assert pieces.step.seconds - whole.step.seconds == pytest.approx(config.layers * 12.4e-6)
    assert pieces.host_seconds == pytest.approx(config.layers * 12.4e-6) and not pieces.launch_seconds
    # Launched one by one there are no pieces, and training has none.
    alone = [project_model(prices, config, replace(plan, engine=each, launch="eager")).step.seconds for each in ("0.10", "0.13")]  # fmt: skip
    assert alone[0] == alone[1]
    trained = Plan("train", batch=1, sequence=256, framework="vllm")
    steps = [project_model(prices, config, replace(trained, engine=each)).step.seconds for each in ("0.10", "0.13")]
    assert steps[0] == steps[1]
