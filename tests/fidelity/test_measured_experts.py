"""What measured rows of experts were measured with: what L2 keeps of their weights, whose choices their kernels went
over."""

from __future__ import annotations

from types import SimpleNamespace

from operators.kinds import KINDS
from operators.l2_state import experts_stay

from gpusim.gpus.load import load_gpu
from gpusim.tile.moe import MoeOp

H100 = load_gpu("h100")


def test_weights_stay_where_all_experts_that_runs_need_fit_into_l2():
    # An expert has 3 MB; 12 MB stay. Eight experts of eight draws are no more than of one, of a power law most of 64.
    for tokens, distribution, stays in ((1, "balanced", True), (2, "balanced", False), (1, "power_law_1.2", False)):
        assert experts_stay(H100, MoeOp(tokens, 1024, 512, 64, 8, distribution=distribution)) == stays


def test_rows_whose_choices_of_others_experts_counted_as_own_take_longer_where_these_are_many():
    row = {
        "num_tokens": 8192,
        "hidden_size": 6144,
        "inter_size": 16384,
        "topk": 2,
        "num_experts": 8,
        "moe_tp_size": 1,
        "moe_ep_size": 8,
        "distribution": "balanced",
        "version": "0.5.14",
    }
    of = KINDS["moe_bf16_sglang"]
    # Two choices a token, of which one is this GPU's expert's.
    clamped, other = (of.seconds(H100, SimpleNamespace(**(row | each)), None) for each in ({}, {"version": "0.5.15"}))
    assert clamped > 1.3 * other
    # Alone, no choice is another GPU's.
    alone = row | {"moe_ep_size": 1, "num_tokens": 64}
    assert of.seconds(H100, SimpleNamespace(**alone), None) == of.seconds(
        H100, SimpleNamespace(**(alone | {"version": "0.5.15"})), None
    )
