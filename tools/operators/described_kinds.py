"""What a measured GPU would be projected with if its generation had no rows of a kind of operator: its description, and
what other generations' rows say of software."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.described import constants_of, described_library
from gpusim.tile.described_experts import described_experts
from gpusim.tile.mla_described import described_mla, described_mla_context
from gpusim.tile.software import software_of, with_software

Figures = Callable[[GpuSpec], Any]


def _product(framework: str, row: str) -> Figures:
    """Of products: the described library, and the framework's software as others' rows have it."""
    return lambda spec: with_software(
        spec,
        described_library(spec, constants_of(f"without_{spec.generation}")),
        software_of(framework, row, spec.generation),
    )


def _experts(whose: str) -> Figures:
    """Of TensorRT-LLM's experts: the described products, and the software as rows of generation ``whose`` have it."""
    return lambda spec: described_experts(spec, whose, constants_of(f"without_{spec.generation}"))


#: Operator -> kind of rows, GPU, its figures; of fp8 those of the one framework that was measured on both.
DESCRIBED: dict[str, list[tuple[str, str, Figures]]] = {
    "gemm_fp8": [("gemm_fp8_trtllm", "h100", _product("trtllm", "fp8")), ("gemm_fp8", "b200", _product("trtllm", "fp8"))],
    "gemm_fp8_block": [
        ("gemm_fp8_block_trtllm", "h100", _product("trtllm", "fp8_block")), ("gemm_fp8_block", "b200", _product("trtllm", "fp8_block")),
    ],
    "bmm": [("bmm", gpu, _product("any", "batch")) for gpu in ("a100_80gb", "h100")],
    "moe_bf16_trtllm": [("moe_bf16_trtllm", "a100_80gb", _experts("hopper")), ("moe_bf16_trtllm", "h100", _experts("ampere"))],
    "mla_generation": [("mla_generation", gpu, lambda spec: described_mla(spec, without=spec.generation)) for gpu in ("a100_80gb", "h100")],
    "mla_context": [("mla_context", gpu, lambda spec: described_mla_context(spec, without=spec.generation)) for gpu in ("a100_80gb", "h100")],
}  # fmt: skip
