"""Projected linear attention: never faster than the machine, no slower for less work, the same at any length of what
came before; and networks that have it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cli import gpusim, run
from gpusim.errors import SpecError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.project.config_file import decoder_of_file
from gpusim.project.export.vidur import tables
from gpusim.project.footprint import footprint_of, parameters_of
from gpusim.project.layers import kinds_of
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import project_model
from gpusim.tile.library import FRAMEWORKS
from gpusim.tile.machine import tile_machine
from gpusim.tile.recurrent import RecurrentOp, project_recurrent, recurrent_kernel_of

H100 = load_gpu("h100")
NAME = "qwen3_next_80b_a3b"
#: Of the config.json of Qwen3-Next-80B-A3B-Instruct, what says sizes.
CONFIG = {
    "model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
    "head_dim": 256, "vocab_size": 151936, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "full_attention_interval": 4,
}  # fmt: skip


def operator(kind: str, phase: str, batch: int, tokens: int, framework: str = "vllm") -> RecurrentOp:
    tokens = tokens if phase == "context" else 1
    if kind == "conv":
        return RecurrentOp("conv", phase, batch, tokens, channels=8192, framework=framework)
    return RecurrentOp("delta", phase, batch, tokens, key_heads=16, value_heads=32, framework=framework)


@given(
    kind=st.sampled_from(["conv", "delta"]), phase=st.sampled_from(["context", "generation"]), batch=st.sampled_from([1, 3, 64, 512]),
    tokens=st.sampled_from([1, 7, 64, 65, 4096]), framework=st.sampled_from(FRAMEWORKS), gpu=st.sampled_from(["a100_80gb", "h100", "b200", "l40", "v100"]),
)  # fmt: skip
def test_none_beats_the_bytes_that_it_must_move_or_the_peak_and_more_takes_longer(
    kind, phase, batch, tokens, framework, gpu
):
    spec, op = load_gpu(gpu), operator(kind, phase, batch, tokens, framework)
    found = project_recurrent(spec, op)
    machine = tile_machine(spec, "fp16")
    cycles = found.seconds * machine.clock_hz
    assert cycles > found.dram_bytes / machine.dram_bytes_per_cycle
    assert cycles > op.moved_bytes / machine.l2_bytes_per_cycle
    assert found.flops / found.seconds < machine.flops_per_cycle * machine.sm_count * machine.clock_hz
    assert found.low_seconds < found.seconds < found.high_seconds
    assert found.seconds <= project_recurrent(spec, replace(op, batch=2 * batch)).seconds
    assert found.seconds <= project_recurrent(spec, replace(op, cold=True)).seconds
    if phase == "context":
        assert found.seconds <= project_recurrent(spec, replace(op, tokens=2 * tokens)).seconds


def test_states_of_many_sequences_come_from_dram():
    op = operator("delta", "generation", 256, 1)
    found = project_recurrent(H100, op)
    # Each state is read and written: 256 x 32 x 128 x 128 numbers of 4 bytes.
    assert found.dram_bytes == pytest.approx(2 * 4 * 256 * 32 * 128 * 128, rel=0.02)
    assert found.limiter == "DRAM" and found.validated


def test_only_hopper_has_flashinfers_kernel_of_prompts():
    assert recurrent_kernel_of("hopper", "vllm", "delta_context").launches == 1
    for generation in ("ampere", "ada", "blackwell"):
        assert recurrent_kernel_of(generation, "vllm", "delta_context") == recurrent_kernel_of(
            "hopper", "sglang", "delta_context"
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "ssm"}, "kind is 'ssm'"),
        ({"phase": "decode"}, "phase is 'decode'"),
        ({"framework": "torch"}, "framework is 'torch'"),
        ({"batch": 0}, "batch is 0"),
        ({"value_heads": 0}, "value_heads is 0"),
        ({"phase": "generation"}, "one token, not 8"),
    ],
)
def test_what_is_no_such_operator_is_refused(change, message):
    with pytest.raises(SpecError, match=message):
        replace(operator("delta", "context", 4, 8), **change)


def test_the_network_has_its_published_size_and_attends_in_each_fourth_layer():
    network = decoder_of(NAME)
    every, active = parameters_of(network)
    assert every == pytest.approx(80e9, rel=0.01) and 3e9 < active < 4e9  # Qwen3-Next-80B-A3B
    assert [kind.linear for kind in kinds_of(network)] == [True, True, True, False] * 12


def test_a_longer_past_costs_attention_alone():
    network, prices = decoder_of(NAME), Prices(H100)

    def parts(sequence: int) -> dict[str, float]:
        found = project_model(prices, network, Plan("decode", batch=8, sequence=sequence, tensor_parallel=2))
        seconds: dict[str, float] = {}
        for item in found.items:
            seconds[item.operator.part] = seconds.get(item.operator.part, 0.0) + item.seconds
        return seconds

    short, long = parts(1024), parts(65536)
    assert short["linear attention"] == long["linear attention"] > 0
    assert long["attention"] > 1.5 * short["attention"]


def test_states_take_as_much_memory_at_any_length_and_what_does_not_divide_is_refused():
    network = decoder_of(NAME)
    held = [footprint_of(network, Plan("decode", batch=1, sequence=n), 192e9).kv_bytes for n in (16, 16 + 16384)]
    # Twelve layers of two heads of 256 have keys and values.
    assert held[1] - held[0] == 12 * 2 * 2 * 256 * 2 * 16384
    assert held[0] > 36 * 4 * 32 * 128 * 128
    with pytest.raises(UsageError, match="16 key heads of linear attention cannot be shared evenly by 32"):
        Plan("decode", batch=1, sequence=16, tensor_parallel=32).check(replace(network, heads=64, kv_heads=64))
    with pytest.raises(UsageError, match="linear attention"):
        list(tables(replace(network, experts=None), Prices(H100), [1], 64))


def test_its_config_file_says_the_same(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    known = decoder_of(NAME)
    assert replace(decoder_of_file(path), name=known.name, source=known.source) == known
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    path.write_text(json.dumps(CONFIG | {"layer_types": kinds * 12}))
    assert decoder_of_file(path).linear == known.linear
    path.write_text(json.dumps(CONFIG | {"layer_types": kinds * 11 + kinds[::-1]}))
    with pytest.raises(UsageError, match="layer_types has full attention elsewhere"):
        decoder_of_file(path)
    path.write_text(json.dumps(CONFIG | {"linear_num_key_heads": 5}))
    with pytest.raises(UsageError, match="32 value heads are no multiple of 5"):
        decoder_of_file(path)


def test_the_command_gives_both_parts_and_refuses_what_contradicts():
    def said(*words: str) -> dict:
        return json.loads(CliRunner().invoke(gpusim, ["project", "linear-attention", "--format", "json", *words]).output)[0]  # fmt: skip

    rule, convolution = said("--batch", "64"), said("--batch", "64", "--part", "convolution")
    assert rule["us"] == pytest.approx(1e6 * project_recurrent(H100, operator("delta", "generation", 64, 1)).seconds, rel=1e-3)  # fmt: skip
    assert convolution["channels"] == 8192 and 0 < convolution["us"] < rule["us"]
    for words in (["--tokens", "3"], ["--phase", "context"], ["--channels", "64"]):
        assert run(["project", "linear-attention", "--batch", "1", *words]) == 2
