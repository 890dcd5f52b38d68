"""What naming a framework changes: whose kernels products have, what its host launches one by one, what sweeps say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpusim.cli import run
from gpusim.collective.project import project_collective
from gpusim.collective.shape import Collective
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.project.config_file import decoder_of_file
from gpusim.project.footprint import parameters_of
from gpusim.project.frameworks import framework_of
from gpusim.project.host import launched_kernels, launched_one_by_one
from gpusim.project.layers import layer_operators, stages_of
from gpusim.project.load import steps_of
from gpusim.project.network import decoder_of
from gpusim.project.operator import Operator
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import project_model
from gpusim.tile.operators import GemmOp

_MODELS = Path(__file__).parents[2] / "traces" / "library" / "models"


def _layer(plan: Plan) -> list[Operator]:
    network = decoder_of("llama3_8b")
    return layer_operators(network, plan, steps_of(plan)[0], stages_of(network, 1)[0][0])


def test_products_have_the_named_frameworks_kernels_where_those_differ() -> None:
    own = {(framework, dtype) for framework in ("vllm", "sglang", "trtllm") for dtype in ("fp8", "fp8_block")}
    for framework in ("", "vllm", "sglang", "trtllm"):
        for dtype in ("bf16", "fp8", "fp8_block"):
            found = {
                item.op.framework
                for item in _layer(Plan("decode", batch=8, dtype=dtype, framework=framework))
                if isinstance(item.op, GemmOp) and item.op.dtype == dtype
            }
            assert found == ({framework} if (framework, dtype) in own else {""}), (framework, dtype)
    # TensorRT's engines before 2024 chose kernels of their own, and converted within what came before.
    engine = _layer(Plan("decode", batch=8, dtype="fp8", framework="trtllm", reads="each"))
    assert {item.op.framework for item in engine if isinstance(item.op, GemmOp)} == {""}
    assert "quantisation" not in {item.name for item in engine}


def test_a_sweeps_table_says_once_what_all_plans_have(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["project", "llama3_8b", "--phase", "decode", "--sweep", "framework=vllm,sglang", "--sweep", "batch=1,2"]
    assert run(words) == 0
    same, table = capsys.readouterr().out.split("\n\n")
    assert "llama3_8b" in same and "llama3_8b" not in table
    assert table.split("\n")[0].split()[:2] == ["batch", "framework"] and len(table.strip().split("\n")) == 6
    assert run([*words, "--format", "json"]) == 0
    assert all({"model", "framework"} <= set(row) for row in json.loads(capsys.readouterr().out))


def test_few_rows_of_nvfp4_have_tensorrts_kernels_where_they_were_measured_and_many_have_not() -> None:
    def products(gpu: str, framework: str, batch: int) -> float:
        prices = Prices(load_gpu(gpu))
        plan = Plan("decode", batch=batch, dtype="nvfp4", framework=framework)
        return sum(prices.of(item.op).seconds for item in _layer(plan) if isinstance(item.op, GemmOp))

    assert products("b200", "trtllm", 384) > 1.1 * products("b200", "vllm", 384)
    assert products("b200", "trtllm", 1024) == products("b200", "vllm", 1024)
    assert products("rtx_pro_6000", "trtllm", 384) == products("rtx_pro_6000", "vllm", 384)


def test_falcons_attention_and_feed_forward_block_are_summed_over_gpus_once() -> None:
    plan = Plan("prefill", tensor_parallel=4)

    def sums(name: str) -> int:
        network = decoder_of_file(_MODELS / f"{name}.json")
        layer = layer_operators(network, plan, steps_of(plan)[0], stages_of(network, 1)[0][0])
        return sum(item.name == "all-reduce" for item in layer)

    assert (sums("falcon_180b"), sums("gptj_6b"), sums("mistral_7b")) == (1, 2, 2)


def test_nemotrons_feed_forward_block_has_no_gate() -> None:
    network = decoder_of_file(_MODELS / "nemotron4_15b.json")
    assert not network.gated and network.kv_heads == 8
    # Two matrices of the block: its makers count 15 billion parameters, a gate would make it 20.
    assert parameters_of(network)[0] == pytest.approx(15.6e9, rel=0.01)


def test_a_falcon_that_says_that_its_attention_is_not_parallel_is_summed_twice(tmp_path: Path) -> None:
    table = json.loads((_MODELS / "falcon_180b.json").read_text("utf-8"))
    path = tmp_path / "config.json"
    for keys, once in (({"parallel_attn": False}, False), ({"parallel_attn": False, "new_decoder_architecture": True}, True)):  # fmt: skip
        path.write_text(json.dumps(table | keys), encoding="utf-8")
        assert decoder_of_file(path).sums_once == once


@pytest.mark.parametrize(("gpu", "gpus", "algorithm"), [("l40s", 4, "ring"), ("l40s", 2, "shot"), ("h100", 4, "shot")])
def test_frameworks_own_sums_need_links_that_reach_all_peers(gpu: str, gpus: int, algorithm: str) -> None:
    def operator(library: str) -> str:
        return project_collective(load_gpu(gpu), Collective("all_reduce", gpus, 1 << 20, library=library)).operator

    assert algorithm in operator("custom")
    assert (operator("custom") == operator("nccl")) == (algorithm == "ring")


def test_engines_of_older_versions_launch_at_their_own_pace() -> None:
    each = {
        engine: framework_of(Plan("prefill", framework="trtllm", engine=engine)).launch_seconds
        for engine in ("", "0.9")
    }
    assert each["0.9"] < each[""]


def test_sums_of_earlier_engines_wait_copy_and_read_by_few_blocks() -> None:
    spec = load_gpu("h100")

    def microseconds(library: str, gpus: int, size: int) -> float:
        return 1e6 * project_collective(spec, Collective("all_reduce", gpus, size, library=library)).seconds

    for gpus in (2, 4, 8):
        assert microseconds("custom", gpus, 16 << 10) + 6 < microseconds("copied", gpus, 16 << 10)
    assert microseconds("copied", 8, 1 << 22) > 2 * microseconds("custom", 8, 1 << 22)
    # The workspace of two GPUs holds 16 MB, of more 8 MB; beyond, NCCL sums.
    assert microseconds("copied", 2, 12 << 20) != microseconds("nccl", 2, 12 << 20)
    assert microseconds("copied", 4, 12 << 20) == microseconds("nccl", 4, 12 << 20)
    summed = {
        engine: [item.op.library for item in _layer(plan) if isinstance(item.op, Collective)]
        for engine in ("", "0.9")
        for plan in [Plan("decode", tensor_parallel=2, framework="trtllm", engine=engine)]
    }
    assert summed == {"": ["custom"] * 2, "0.9": ["copied"] * 2}


def test_an_engine_without_graphs_idles_between_kernels_however_far_ahead_its_host_is() -> None:
    prices, network = Prices(load_gpu("a100_80gb")), decoder_of("llama3_8b")
    eager, graphs, older = (
        project_model(prices, network, Plan("decode", framework="trtllm", engine=engine, launch=launch))
        for engine, launch in (("0.9", "eager"), ("0.9", "graphs"), ("", "eager"))
    )
    gap = framework_of(eager.plan).gap_seconds * launched_kernels(eager.items)
    assert gap > 0 and eager.step.seconds == pytest.approx(graphs.step.seconds + gap)
    assert eager.host_seconds == pytest.approx(gap) and graphs.host_seconds == 0
    assert framework_of(older.plan).gap_seconds == 0


def test_an_engine_that_draws_by_few_blocks_takes_longer_with_the_vocabulary_than_its_bytes_do() -> None:
    prices, network = Prices(load_gpu("h100")), decoder_of("llama3_8b")

    def drawn(batch: int, engine: str) -> float:
        found = project_model(prices, network, Plan("decode", batch=batch, framework="trtllm", engine=engine))
        return next(item.seconds for item in found.items if item.operator.name == "sampling")

    assert drawn(1, "0.9") == pytest.approx(3.0e-9 * network.vocabulary, rel=0.05)
    assert drawn(64, "0.9") == pytest.approx(6.2e-9 * network.vocabulary, rel=0.05)
    assert drawn(1, "") < 0.05 * drawn(1, "0.9")


def test_a_short_prompt_waits_for_a_host_that_launches_one_by_one_and_a_long_one_does_not():
    prices, network = Prices(load_gpu("h100")), decoder_of("llama3_8b")
    short, graph, long = (
        project_model(
            prices, network, Plan("prefill", sequence=sequence, dtype="fp8", framework="trtllm", launch=launch)
        )
        for sequence, launch in ((64, "default"), (64, "graphs"), (4096, "default"))
    )
    assert short.step.seconds == pytest.approx(framework_of(short.plan).launch_seconds * launched_kernels(short.items))
    assert graph.host_seconds == long.host_seconds == 0 < short.host_seconds
    assert short.step.seconds == pytest.approx(graph.step.seconds + short.host_seconds)
    assert short.bubble_seconds == pytest.approx(0.0, abs=1e-9)


def test_what_is_replayed_as_a_graph_is_the_frameworks_own_unless_the_plan_says():
    prefill, decode = Plan("prefill"), Plan("decode", batch=4)
    assert [launched_one_by_one(prefill, tokens) for tokens in (512, 513)] == [False, True]
    assert launched_one_by_one(replace(prefill, framework="sglang"), 1)
    assert not launched_one_by_one(replace(decode, framework="trtllm"), 4)
    assert launched_one_by_one(replace(decode, launch="eager"), 4)
    older = replace(decode, framework="vllm", engine="v0")
    assert [launched_one_by_one(older, 4, keys) for keys in (8192, 8193)] == [False, True]
    assert not launched_one_by_one(replace(older, launch="graphs"), 4, 8193)
    assert not launched_one_by_one(decode, 4, 8193)
    with pytest.raises(UsageError, match="launch is 'lazy': known are default, eager, graphs"):
        Plan("decode", launch="lazy")


def test_v0_waits_for_its_host_with_sequences_longer_than_its_graphs_have() -> None:
    prices, network = Prices(load_gpu("h100")), decoder_of("qwen2.5_7b")
    steps = [
        project_model(
            prices,
            network,
            Plan("decode", sequence=keys, dtype="int4_wo", framework="vllm", engine="v0", launch=launch),
        )
        for keys, launch in ((8192, "default"), (8193, "default"), (8193, "graphs"))
    ]
    assert [step.host_seconds > 0 for step in steps] == [False, True, False]
    assert steps[1].step.seconds == pytest.approx(
        framework_of(steps[1].plan).launch_seconds * launched_kernels(steps[1].items)
    )
