"""The launches of real networks: every one a shape that its kernel has, and together the published sizes."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

import kernels

ROOT = Path(__file__).parents[2]
#: Parameters as the network's authors state them (same sources as the configurations).
PARAMETERS = {
    "llama3_8b": 8.03e9,
    "llama3_70b": 70.6e9,
    "qwen2.5_7b": 7.61e9,
    "qwen3_8b": 8.2e9,
    "qwen3_30b_a3b": 30.5e9,
    "mixtral_8x7b": 46.7e9,
    "deepseek_v3": 671e9,
    "gpt_oss_20b": 20.9e9,
    "gpt_oss_120b": 116.8e9,
    # The paper rounds to 110 and 340 million; the published weights are of these many.
    "bert_base": 109.48e6,
    "bert_large": 335.1e6,
    "dit_xl2_256": 675e6,
    "whisper_large_v3": 1.55e9,
}
#: Their logits use the table of tokens again.
TIED = {"whisper_large_v3"}
PRODUCTS = {"hgemm_tensor": ("n", "k"), "sgemm_register": ("n", "k"), "gemv": ("rows", "columns")}


def load_networks():
    where = ROOT / "workloads" / "networks" / "__init__.py"
    spec = importlib.util.spec_from_file_location("networks", where, submodule_search_locations=[str(where.parent)])
    module = importlib.util.module_from_spec(spec)
    sys.modules["networks"] = module
    spec.loader.exec_module(module)
    return module


networks = load_networks()


def steps(name: str):
    """All steps of a network that exist, among a few batches and splits."""
    for phase in networks.PHASES:
        for precision in networks.PRECISIONS:
            for batch, split in ((1, 1), (8, 1), (64, 4)):
                try:
                    yield networks.launches(name, phase=phase, precision=precision, batch=batch, tensor_parallel=split)
                except ValueError as error:
                    assert "no decode" in str(error) or "split" in str(error), (name, phase, error)


@pytest.mark.parametrize("name", networks.CONFIGS)
def test_every_launch_is_a_shape_of_its_kernel(name: str) -> None:
    seen = 0
    for launches in steps(name):
        for launch in launches:
            axes = kernels.get(launch.kernel).axes
            assert set(launch.shape) <= set(axes), launch
            assert launch.count >= 1
            for axis, value in launch.shape.items():
                assert type(value) is type(kernels.get(launch.kernel).default[axis]), (launch, axis)
                if isinstance(value, str):
                    assert value in axes[axis], (launch, axis)
            seen += 1
    assert seen


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_the_products_hold_all_of_a_network_s_weights(name: str, parameters: float) -> None:
    """Weights are the second operand of each product (attention's own products have none), and the tables; biases and
    scales are the rest: under one percent."""
    weights = 0
    for launch in networks.launches(name):
        if launch.operator in ("scores", "weighted values") or (name in TIED and launch.operator == "logits"):
            continue
        if launch.kernel in PRODUCTS:
            wide, deep = PRODUCTS[launch.kernel]
            weights += launch.count * launch.shape[wide] * launch.shape[deep]
        elif launch.kernel == "embedding_gather":
            weights += launch.shape["vocabulary"] * launch.shape["columns"]
    assert weights == pytest.approx(parameters, rel=0.01)


def test_resnet50_multiplies_as_often_as_published() -> None:
    """4.1 billion multiply-adds with the stride in the 3 x 3 convolutions (torchvision's documentation: 4.09)."""
    operations = 0
    for launch in networks.launches("resnet50"):
        if launch.kernel != "conv2d_implicit_gemm":
            continue
        s = launch.shape
        outputs = (s["size"] + 2 * s["padding"] - s["filter_size"]) // s["stride"] + 1
        operations += launch.count * outputs**2 * s["filters"] * s["channels"] * s["filter_size"] ** 2
    assert operations == pytest.approx(4.09e9, rel=0.01)


def test_tensor_parallelism_divides_the_weights_and_nothing_else() -> None:
    one, four = (networks.launches("llama3_70b", tensor_parallel=split) for split in (1, 4))
    assert [launch.operator for launch in one] == [launch.operator for launch in four]
    for alone, shared in zip(one, four, strict=True):
        if alone.kernel == "hgemm_tensor":
            assert alone.shape["n"] * alone.shape["k"] == 4 * shared.shape["n"] * shared.shape["k"], alone.operator


def test_banded_layers_decode_over_their_band_only() -> None:
    spans = {
        launch.shape["context"]: launch.count
        for launch in networks.launches("gpt_oss_120b", phase="decode", sequence=4096)
        if launch.kernel == "paged_attention_decode"
    }
    assert spans == {4096: 18, 128: 18}


def test_whisper_decodes_with_its_own_past_and_all_of_the_audio() -> None:
    launches = networks.launches("whisper_large_v3", phase="decode", batch=4, sequence=17)
    contexts = {each.note: each.shape["context"] for each in launches if each.kernel == "paged_attention_decode"}
    assert contexts == {"own past": 17, "audio": 1500}
    assert not any(each.layer in ("stem", "encoder") for each in launches)
    whole = networks.launches("whisper_large_v3", batch=4)
    stem = [each.shape for each in whole if each.operator == "convolution"]
    assert stem == [{"m": 12_000, "n": 1280, "k": 384}, {"m": 6000, "n": 1280, "k": 3840}]
    assert [each.operator for each in whole][-len(launches) :] == [each.operator for each in launches]


def test_what_the_suite_has_in_float32_only_is_noted() -> None:
    for name in ("bert_base", "resnet50", "deepseek_v3"):
        alone = [
            each for each in networks.launches(name)
            if each.kernel in ("layernorm", "softmax", "conv2d_implicit_gemm")
        ]  # fmt: skip
        assert alone and all("float32" in each.note for each in alone)
        assert not any("float32: the suite" in each.note for each in networks.launches(name, precision="float32"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"network": "llama4"}, "llama3_8b"),
        ({"network": "llama3_8b", "phase": "train"}, "prefill"),
        ({"network": "llama3_8b", "precision": "fp8"}, "float16"),
        ({"network": "llama3_8b", "tensor_parallel": 3}, "evenly over 3"),
        ({"network": "llama3_8b", "batch": 0}, "batch"),
        ({"network": "bert_base", "phase": "decode"}, "no decode"),
        ({"network": "resnet50", "sequence": 5}, "images"),
    ],
)
def test_a_step_that_does_not_exist_is_refused_by_name(arguments: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        networks.launches(**arguments)


def test_each_network_names_its_source() -> None:
    assert all(config.source for config in networks.CONFIGS.values())
    assert inspect.signature(networks.launches).parameters["precision"].default == "float16"
