"""What naming a framework changes: whose kernels products have, and what a sweep over frameworks says."""

from __future__ import annotations

import json

import pytest

from gpusim.cli import run
from gpusim.gpus.load import load_gpu
from gpusim.project.layers import layer_operators, stages_of
from gpusim.project.load import steps_of
from gpusim.project.network import decoder_of
from gpusim.project.operator import Operator
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.tile.operators import GemmOp


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
