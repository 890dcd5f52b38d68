"""What training's options do to a projected step: stages in pieces, sums beside products, scores in memory, gradients'
sums."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim.collective.shape import Collective
from gpusim.errors import SpecError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.project.backward import backward_of
from gpusim.project.earlier_attention import EarlierAttention
from gpusim.project.execution import step_traces
from gpusim.project.footprint import footprint_of
from gpusim.project.network import decoder_of
from gpusim.project.operator import FUSED_LOSS, Operator
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.settings import schedule_of
from gpusim.project.whole import ModelProjection, project_model
from gpusim.tile.operators import AttentionOp, GemmOp, MemoryOp, MoeOp

PIPELINE = Plan("train", batch=8, sequence=512, pipeline_parallel=4, micro_batches=8)
SHARED = Plan("train", batch=2, sequence=1024, tensor_parallel=4)


@pytest.fixture(scope="module")
def prices() -> Prices:
    return Prices(load_gpu("h100"))


def _seconds(found: ModelProjection, *names: str) -> float:
    return sum(item.seconds for item in found.items if item.operator.name in names)


def test_stages_in_pieces_fill_and_empty_the_pipeline_sooner(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    whole, pieces = (project_model(prices, network, replace(PIPELINE, virtual_stages=count)) for count in (1, 4))
    # What remains is the last stage's head, which paces the pipeline, and what is sent more often.
    assert pieces.step.seconds < whole.step.seconds
    assert pieces.bubble_seconds < 0.7 * whole.bubble_seconds
    held = [footprint_of(network, replace(PIPELINE, virtual_stages=count), 80e9).activation_bytes for count in (1, 4)]
    assert held[1] / held[0] == pytest.approx(1 + 3 / 16)
    with pytest.raises(UsageError, match="leave out --virtual-stages"):
        Plan("prefill", pipeline_parallel=2, virtual_stages=2)
    with pytest.raises(UsageError, match="virtual ones counted"):
        project_model(prices, network, replace(PIPELINE, virtual_stages=16))
    with pytest.raises(UsageError, match="traces of stages in pieces"):
        step_traces(prices, network, replace(PIPELINE, virtual_stages=2))


def test_sums_beside_products_wait_for_one_piece(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    apart, beside = (project_model(prices, network, replace(SHARED, overlap=each)) for each in ("none", "products"))
    layers = sum(
        item.seconds
        for item in apart.items
        if item.operator.communicates and item.operator.part in ("attention", "feed-forward")
    )
    assert apart.step.seconds - beside.step.seconds == pytest.approx(0.75 * layers)
    assert apart.communication_seconds - beside.communication_seconds == pytest.approx(0.75 * layers)
    assert beside.hidden_seconds == pytest.approx(0.75 * layers)
    held = [
        footprint_of(network, replace(SHARED, overlap=each), 80e9).activation_bytes for each in ("none", "products")
    ]
    assert held[1] / held[0] == pytest.approx((34 / 4) / (10 + 24 / 4))
    narrow = footprint_of(network, replace(SHARED, dtype="fp8"), 80e9).activation_bytes
    assert narrow / held[0] == pytest.approx((8 + 19 / 4) / (10 + 24 / 4))
    for plan in ({"phase": "prefill", "tensor_parallel": 2}, {"phase": "train", "tensor_parallel": 1}):
        with pytest.raises(UsageError, match="leave out --overlap"):
            Plan(**plan, overlap="products")  # type: ignore[arg-type]


def test_pieces_send_beside_products_and_sum_gradients_beside_as_many_micro_batches_as_stages(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    plan = replace(PIPELINE, tensor_parallel=8)
    pieces, whole = (
        project_model(prices, network, replace(plan, virtual_stages=count, overlap="products")) for count in (2, 1)
    )
    sent = _seconds(pieces, "send to the next stage", "send to the next stage, backward")
    assert pieces.hidden_seconds - whole.hidden_seconds == pytest.approx(plan.micro_batches * sent)
    # Over the network the two replicas' sum takes longer than one micro-batch's backward pass.
    apart = replace(plan, data_parallel=2, batch=16)
    one, four = (project_model(prices, network, replace(apart, virtual_stages=count)) for count in (1, 2))
    assert _seconds(one, "gradients over replicas") > four.step.seconds / 100
    assert four.hidden_seconds > 2 * one.hidden_seconds


def test_scores_in_memory_are_moved_and_computed_again(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    eager = replace(SHARED, scores="eager")
    fused, apart, again = (project_model(prices, network, plan) for plan in (SHARED, eager, replace(eager, recompute="selective")))  # fmt: skip
    assert not _seconds(apart, "attention", "attention, backward")
    core = ("scores", "softmax", "dropout", "values")
    assert apart.step.seconds > fused.step.seconds
    assert again.step.seconds - apart.step.seconds == pytest.approx(_seconds(apart, *core))
    scores = 8 * 2 * 1024 * 1024
    (softmax,) = [item.operator.op for item in apart.items if item.operator.name == "softmax"]
    assert isinstance(softmax, MemoryOp) and softmax.read_bytes == softmax.written_bytes == 2 * scores
    kept = [footprint_of(network, plan, 80e9).activation_bytes for plan in (SHARED, eager)]
    assert kept[1] - kept[0] == 5 * scores * network.layers
    with pytest.raises(UsageError, match="leave out --scores"):
        Plan("prefill", scores="eager")


def test_a_loss_with_its_gradient_goes_over_16_bits_once(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    apart, fused = (project_model(prices, network, replace(SHARED, loss=loss)) for loss in ("apart", "fused"))
    names = {item.operator.name for item in fused.items}
    assert FUSED_LOSS in names and not {"loss", "loss, backward", f"{FUSED_LOSS}, backward"} & names
    kept = {item.operator.name: item.operator.op for item in (*apart.items, *fused.items)}
    one, passes, behind = (kept[name] for name in (FUSED_LOSS, "loss", "loss, backward"))
    assert isinstance(one, MemoryOp) and isinstance(passes, MemoryOp) and isinstance(behind, MemoryOp)
    assert 2 * one.written_bytes == 2 * one.read_bytes == passes.written_bytes
    assert fused.step.seconds == pytest.approx(apart.step.seconds - _seconds(apart, "loss", "loss, backward") + _seconds(fused, FUSED_LOSS))  # fmt: skip
    with pytest.raises(UsageError, match="leave out --loss"):
        Plan("prefill", loss="fused")


def test_gradients_of_weights_are_added_up_in_fp32() -> None:
    weights, heads = GemmOp(512, 4096, 1024, "bf16"), GemmOp(512, 512, 128, "bf16", batch=8)
    found = backward_of([Operator("feed-forward", "down", weights, 3), Operator("attention", "scores", heads)])
    (added,) = [each for each in found if isinstance(each.op, MemoryOp)]
    assert isinstance(added.op, MemoryOp) and added.count == 3
    # Read and written in four bytes, where the product alone writes two.
    assert added.op.read_bytes + added.op.written_bytes == 6 * 4096 * 1024


def test_a_framework_takes_more_memory_where_its_gpus_speak_to_each_other() -> None:
    network = decoder_of("llama3_8b")

    def taken(**plan: object) -> float:
        return footprint_of(network, Plan("decode", **plan), 80e9).framework_bytes  # type: ignore[arg-type]

    assert taken() == taken(data_parallel=2, batch=2) == 2.5e9
    assert taken(tensor_parallel=2) == taken(pipeline_parallel=2) == 2.5e9 + 1.92e9
    assert taken(framework="trtllm") == 3.4e9
    assert taken(framework="trtllm", tensor_parallel=8) == 8.2e9


def test_attention_of_before_hopper_goes_by_sms_and_their_clock() -> None:
    attention = AttentionOp("context", 8, 4096, 4096, 16, 16, 128)
    ampere, hopper = load_gpu("a100_80gb"), load_gpu("h100")
    measured = Prices(ampere).of(attention)
    own = Prices(ampere).of(EarlierAttention(attention, "flash-2"))
    assert (own.seconds, own.validated) == (measured.seconds, measured.validated)
    cycles = {spec.name: spec.sm_count * spec.clock_hz for spec in (ampere, hopper)}
    later = Prices(hopper).of(EarlierAttention(attention, "flash-2"))
    assert later.gpu == "h100" and not later.validated
    assert later.seconds / own.seconds == pytest.approx(cycles["a100_80gb"] / cycles["h100"])
    triton = [Prices(hopper).of(EarlierAttention(attention, "flash-triton", backward=each)).seconds for each in (False, True)]  # fmt: skip
    assert [each / later.seconds for each in triton] == pytest.approx([1.4, 2.0])
    # Below what Hopper's own kernel does, and above what mma.sync could at most.
    assert Prices(hopper).of(attention).seconds < later.seconds
    with pytest.raises(SpecError, match="leave out --scores"):
        Prices(load_gpu("t4")).of(EarlierAttention(attention, "flash-2"))


def test_training_has_no_attention_in_triton_where_serving_has_it() -> None:
    # vLLM's kernel for heads of 192 elements on a B200, 66 TFLOP/s, has no backward pass.
    wide, narrow = (AttentionOp("context", 1, 4096, 4096, 12, 1, width) for width in (192, 128))
    b200, h100 = Prices(load_gpu("b200")), Prices(load_gpu("h100"))
    trained = b200.of(EarlierAttention(wide, "fused"))
    assert not trained.validated and trained.seconds == b200.of(EarlierAttention(wide, "flash-2")).seconds
    assert 5 * trained.seconds < b200.of(wide).seconds
    for prices, op in ((b200, narrow), (h100, wide), (Prices(load_gpu("t4")), narrow)):
        assert prices.of(EarlierAttention(op, "fused")) == prices.of(op)


def test_a_training_step_takes_the_attention_that_it_is_given(prices: Prices) -> None:
    network = decoder_of("llama3_8b")
    own, triton = (project_model(prices, network, replace(SHARED, scores=each)) for each in ("fused", "flash-triton"))
    assert triton.step.seconds - own.step.seconds == pytest.approx(
        _seconds(triton, "attention", "attention, backward") - _seconds(own, "attention", "attention, backward")
    )
    (behind,) = [item.operator for item in triton.items if item.operator.name == "attention, backward"]
    assert isinstance(behind.op, EarlierAttention) and behind.op.backward and behind.count == 3 * network.layers
    assert "attention by FlashAttention in Triton" in schedule_of(triton.plan)


@pytest.mark.parametrize("tensor_parallel", [1, 2])
def test_groups_of_replicas_that_share_experts_out_do_not_know_of_one_another(prices: Prices, tensor_parallel) -> None:
    network = decoder_of("qwen3_30b_a3b")
    one = Plan("decode", batch=32, sequence=512, tensor_parallel=tensor_parallel, data_parallel=4 // tensor_parallel, expert_parallel=4)  # fmt: skip
    four = replace(one, batch=4 * one.batch, data_parallel=4 * one.data_parallel)
    alone, beside = (project_model(prices, network, plan) for plan in (one, four))
    assert alone.step == beside.step and alone.footprint == beside.footprint
    # More GPUs in the group do know: each has more tokens of others, of fewer experts.
    assert project_model(prices, network, replace(four, expert_parallel=16)).step != alone.step


def test_gradients_of_experts_are_summed_over_the_groups_that_have_them(prices: Prices) -> None:
    network = decoder_of("qwen3_30b_a3b")

    def summed(expert_parallel: int = 1) -> list[tuple[int, float]]:
        plan = Plan("train", batch=8, sequence=512, data_parallel=8, expert_parallel=expert_parallel)
        found = [item.operator for item in project_model(prices, network, plan).items]
        sums = (each.op for each in found if each.name == "gradients over replicas")
        return sorted((each.gpus, each.message_bytes / 1e9) for each in sums if isinstance(each, Collective))

    # A trace names for each the GPUs that have the same parameters: of two groups of four the same place in both.
    plan = Plan("train", batch=8, sequence=512, data_parallel=8, expert_parallel=4)
    made = step_traces(prices, network, plan, ranks=[1])
    of_optimizer = [node for node in made.traces[0].nodes if node.name == "optimizer: gradients over replicas"]
    assert {made.groups[node.group] for node in of_optimizer} == {tuple(range(8)), (1, 5)}
    # 30.5 G parameters, of which 29.0 G are of experts; two bytes of each.
    assert summed() == [(8, pytest.approx(61, rel=0.01))]
    (groups, of_experts), (replicas, rest) = summed(expert_parallel=4)
    assert (groups, replicas) == (2, 8) and of_experts == pytest.approx(58 / 4, rel=0.01)
    assert summed(expert_parallel=8) == [(8, rest)], "every expert's weights are on one GPU alone"
    shared = Plan("train", batch=8, sequence=512, data_parallel=8, expert_parallel=8)
    whole, kept = (footprint_of(network, replace(shared, zero=zero), 1e12) for zero in (0, 1))
    state = whole.training_bytes - kept.training_bytes
    assert state == pytest.approx(12 * rest / 2 * 1e9 * 7 / 8, rel=0.01), "states of experts have no copies to share"


def test_experts_that_train_have_even_loads_of_the_tokens_sent_to_them() -> None:
    config, plan = decoder_of("qwen3_30b_a3b"), Plan("train", batch=8, sequence=1024, data_parallel=8)
    assert config.experts is not None
    prices = Prices(load_gpu("gb200"))
    for shared_over in (1, 8):
        found = project_model(prices, config, replace(plan, expert_parallel=shared_over))
        (experts,) = [item.operator.op for item in found.items if item.operator.name == "experts"]
        assert isinstance(experts, MoeOp) and experts.distribution == "balanced"
        # As many rows whether experts are shared out or not, of as many fewer experts.
        assert experts.tokens * experts.top_k == 1024 * config.experts.per_token
        assert (experts.ep, experts.experts) == (1, config.experts.routed // shared_over)
    # Fewer experts on a GPU than a token chooses.
    few = project_model(prices, config, replace(plan, batch=64, data_parallel=64, expert_parallel=64))
    (experts,) = [item.operator.op for item in few.items if item.operator.name == "experts"]
    assert isinstance(experts, MoeOp) and (experts.experts, experts.top_k, experts.tokens) == (2, 2, 4096)


def test_servers_of_more_gpus_than_a_node_share_experts_out_evenly() -> None:
    """SGLang's DeepSeek on 96 H100s (lmsys.org/blog/2025-05-05-large-scale-ep): 2,788 tokens a second and GPU
    generated by 72 GPUs, halves of whose batches take turns; with the busiest GPU of a skewed router 743."""
    config = decoder_of("deepseek_v3")
    plan = Plan("decode", batch=72 * 256, sequence=2100, data_parallel=72, expert_parallel=72, dtype="fp8_block", framework="sglang", overlap="two-batch")  # fmt: skip
    found = project_model(Prices(load_gpu("h100")), config, plan)
    assert 2300 < found.tokens / found.step.seconds / plan.gpus < 3500
    node = replace(plan, batch=8 * 256, data_parallel=8, expert_parallel=8, overlap="none")
    kept = {each.expert_parallel: [item.operator.op for item in project_model(Prices(load_gpu("h100")), config, each).items if item.operator.name == "experts"] for each in (plan, node)}  # fmt: skip
    (many,), (few,) = kept[72], kept[8]
    assert isinstance(many, MoeOp) and isinstance(few, MoeOp)
    assert (many.ep, many.experts, many.distribution) == (1, 4, "balanced") and few.ep == 8
