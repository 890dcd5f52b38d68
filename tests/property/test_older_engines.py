"""Engines of TensorRT-LLM before 2024 launch what newer ones join."""

from __future__ import annotations

from dataclasses import replace

from gpusim.project.feed_forward import dense
from gpusim.project.load import steps_of
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.tile.operators import GemmOp


def test_older_engines_of_tensorrt_llm_multiply_gate_and_up_apart() -> None:
    network = decoder_of("llama3_8b")
    old = Plan("prefill", sequence=128, dtype="fp8", kv_dtype="fp8", framework="trtllm", reads="each")
    (load,) = steps_of(old)
    products = {
        reads: [each.op for each in dense(network, replace(old, reads=reads), load) if isinstance(each.op, GemmOp)]
        for reads in ("each", "shared")
    }
    assert [op.columns for op in products["each"]] == [network.feed_forward, network.feed_forward, network.hidden]
    assert [op.columns for op in products["shared"]] == [2 * network.feed_forward, network.hidden]
    # Rows are brought to 8 bits once.
    assert [op.input_dtype for op in products["each"]] == ["bf16", "fp8", "fp8"]
