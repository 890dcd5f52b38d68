"""Intervals of requests and servers, by what published rows of a half say; and what a framework's kernels hand on
converted."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from gpusim.gpus.load import load_gpu
from gpusim.project import bands
from gpusim.project.bands import cell_of, served_factor
from gpusim.project.footprint import footprint_of
from gpusim.project.host import launched_kernels
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.serving import project_serving
from gpusim.project.whole import project_model
from gpusim.tile.library import FRAMEWORKS
from gpusim.tile.operators import GemmOp, MemoryOp
from tools.served_bands import calibration, cells


@pytest.fixture(scope="module")
def prices() -> Prices:
    return Prices(load_gpu("h100"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("generation", ["hopper", "ada", "volta", "nextone"])
def test_every_framework_network_and_gpu_has_a_factor(framework: str, generation: str) -> None:
    for experts in (False, True):
        assert 1.02 < served_factor(framework, experts, generation) < 2.5


@pytest.mark.parametrize("network", ["llama3_8b", "qwen3_30b_a3b"])
def test_no_request_or_server_of_a_named_framework_is_surer_than_published_ones_of_its_kind(
    prices: Prices, network: str
) -> None:
    config, plan = decoder_of(network), Plan("request", batch=4, sequence=256, output=16, framework="vllm")
    factor = served_factor("vllm", config.experts is not None, "hopper")
    request = project_request(prices, config, plan)
    served = project_serving(prices, config, Plan("serve", batch=4, sequence=256, output=16, framework="vllm"), 8)
    for found in (request.per_token, request.seconds, served.per_token, served.seconds):
        assert found.high_seconds >= 0.999 * factor * found.seconds
        assert found.low_seconds <= 1.001 * found.seconds / factor


def _rows(framework: str, experts: bool, known: bool, errors: list[float], generation: str = "") -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "framework": framework,
                "experts": experts,
                "known": known,
                "generation": generation or ("hopper" if known else "ada"),
                "error_percent": error,
                "inside": error < 10,
            }
            for error in errors
        ]
    )


def test_a_cell_has_its_own_rows_factor_and_few_rows_lean_on_what_differs_in_one_thing() -> None:
    many = pd.concat(
        [_rows("a", False, True, [1.0] * 7 + [10.0]), _rows("a", False, True, [50.0], "ampere")]
    )  # eight of ten rows, the next one counted, lie within 10 %
    few = _rows("a", True, True, [5.0])
    other = _rows("b", True, True, [30.0] * 8)
    found = cells(pd.concat([many, few, other]), ["a", "b"])
    own = found[cell_of("a", False, "hopper")]
    assert (own["factor"], own["rows"], set(own["generations"])) == (pytest.approx(1.1), 9, {"hopper"})
    # One row of its own, 9 of the framework's dense networks, 8 of the other framework's experts: the widest.
    assert found[cell_of("a", True, "hopper")] == {"factor": pytest.approx(1.3), "rows": 1, "generations": {}}
    # No row of its own: no surer than any that differ in one thing, however few, nor than all rows.
    assert found[cell_of("b", True, "ada")] == {"factor": pytest.approx(1.3), "rows": 0, "generations": {}}
    assert found[cell_of("a", False, "ada")]["factor"] >= own["factor"]
    assert len(found) == 8 and all(math.isfinite(each["factor"]) for each in found.values())
    final = pd.concat([_rows("a", False, True, [1.0, 2.0, 3.0, 60.0]), _rows("a", False, True, [60.0], "ampere")])
    (rest, row, whole) = calibration(final, found)
    assert (row["cell"], row["rows"], row["inside_interval_percent"]) == (
        f"{cell_of('a', False, 'hopper')}: hopper",
        4,
        75,
    )
    assert (rest["cell"], rest["rows_that_set"], rest["rows"], rest["inside_interval_percent"]) == (
        cell_of("a", False, "hopper"),
        9,
        1,
        0,
    )
    assert (whole["cell"], whole["rows_that_set"], whole["rows"]) == ("all", 9, 5)


def test_a_generation_with_rows_of_its_own_takes_their_factor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(bands._FILE.read_text(encoding="utf-8"))
    document["served"][cell_of("vllm", False, "hopper")] = {"factor": 1.1, "rows": 20, "generations": {"blackwell": {"factor": 1.4, "rows": 8}}}  # fmt: skip
    path = tmp_path / "errors.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr(bands, "_FILE", path)
    served_factor.cache_clear()
    try:
        assert served_factor("vllm", False, "blackwell") == 1.4
        assert served_factor("vllm", False, "hopper") == 1.1
    finally:
        served_factor.cache_clear()


def test_experts_kernels_set_apart_room_for_every_choice_of_all_replicas_that_share_them() -> None:
    config = decoder_of("qwen3_30b_a3b")
    held = {
        ways: footprint_of(config, Plan("prefill", batch=ways, sequence=4096, data_parallel=ways, expert_parallel=ways), 80e9).activation_bytes
        for ways in (1, 2, 4)
    }  # fmt: skip
    # A row of 2,048 elements in 16 bits in, gate and up of 768 or such a row out, for each of eight choices.
    assert held[2] - held[1] == pytest.approx(4096 * 8 * 2 * (2048 + 2048))
    assert held[4] - held[2] == pytest.approx(2 * (held[2] - held[1]))
    wide = replace(config, experts=replace(config.experts, hidden=4096))
    plan = Plan("prefill", batch=1, sequence=4096)
    assert footprint_of(wide, plan, 80e9).activation_bytes - held[1] == pytest.approx(4096 * 8 * 2 * (2 * 4096 - 2048))


def test_attention_and_activations_hand_on_what_checkpoints_with_scales_are_multiplied_by(prices: Prices) -> None:
    config = decoder_of("llama3_8b")
    steps = {
        (framework, dtype): project_model(
            prices, config, Plan("prefill", sequence=512, dtype=dtype, framework=framework)
        )
        for framework, dtype in (("trtllm", "fp8"), ("vllm", "fp8"), ("trtllm", "bf16"))
    }
    converted = {
        key: {item.operator.name for item in step.items if isinstance(item.operator.op, GemmOp) and item.operator.op.input_dtype == "fp8"}
        for key, step in steps.items()
    }  # fmt: skip
    assert converted == {
        ("trtllm", "fp8"): {"queries, keys, values", "output", "gate and up", "down"}, ("vllm", "fp8"): set(), ("trtllm", "bf16"): set(),
    }  # fmt: skip
    quantised = [
        (item.operator.part, item.operator.count)
        for item in steps["trtllm", "fp8"].items
        if item.operator.name == "quantisation"
    ]
    assert quantised == [
        ("attention", config.layers),
        ("feed-forward", config.layers),
    ]  # where a norm comes before the product
    written = {
        key: [item.operator.op.written_bytes for item in step.items if isinstance(item.operator.op, MemoryOp) and item.operator.op.kind == "activation"]
        for key, step in steps.items()
    }  # fmt: skip
    assert [2 * bytes_ for bytes_ in written["trtllm", "fp8"]] == written["vllm", "fp8"] == written["trtllm", "bf16"]
    assert launched_kernels(steps["trtllm", "fp8"].items) == launched_kernels(steps["vllm", "fp8"].items) - 2 * config.layers  # fmt: skip
