"""PyTorch's own kernels: which functor an elementwise kernel or a reduction is a template of.

Mental model: ``at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, ...>`` is a loop whose
work is its functor; between loop and functor stand wrappers that bind a scalar or cast. The first name that is neither
wrapper nor type is the functor. ``multi_tensor_apply_kernel`` (PyTorch's foreach and Apex) is the same over a list of
tensors.

Source: ``aten/src/ATen/native/cuda`` of PyTorch 1.13 to 2.7: ``Loops.cuh``, ``CUDALoops.cuh``, ``Reduce.cuh``,
``MultiTensorApply.cuh``.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpusim.production.names.kernel_name import UNKNOWN, KernelName
from gpusim.production.names.split import SplitName, parts_of
from gpusim.production.names.types import WORDS, type_of

_LOOPS = (
    "vectorized_elementwise_kernel", "unrolled_elementwise_kernel", "elementwise_kernel", "elementwise_kernel_with_index",
    "index_elementwise_kernel", "vectorized_templated_elementwise_kernel", "unrolled_elementwise_kernel_for_multi_outputs",
    "kernelPointwiseApply1", "kernelPointwiseApply2", "kernelPointwiseApply3", "_elemwise_kernel", "_unrolled_kernel",
    "legacy_elementwise_kernel",
)  # fmt: skip
_WRAPPERS = frozenset(
    [
        "at",
        "native",
        "c10",
        "detail",
        "internal",
        "binary_internal",
        "std",
        "memory",
        "thrust",
        "cuda",
        "gpu_kernel_impl",
        "gpu_kernel_impl_nocast",
        "gpu_kernel",
        "gpu_kernel_with_index",
        "gpu_index_kernel",
        "AUnaryFunctor",
        "BUnaryFunctor",
        "BinaryFunctor",
        "UnaryFunctor",
        "operator",
        "lambda",
        "const",
        "instance",
        "TensorIteratorBase",
        "TensorIterator",
        "Array",
        "array",
        "OpaqueType",
        "opmath_gpu_kernel_with_scalars",
        "opmath_symmetric_gpu_kernel_with_scalars",
        "opmath_t",
        "complex",
        "func_wrapper_t",
        "ReduceOp",
        "ArrayRef",
        "Scalar",
        "TensorListMetadata",
        "DepthToMaxTensors_t",
        "multi_tensor_apply",
        "bool_t",
        "TensorListScalarListMetadata",
        "FusedOptimizerTensorListMetadata",
        "ListMetadata",
        "pair",
        "tuple",
        "function",
        "jitted_gpu_kernel_impl",
        "true",
        "false",
        "transformer_engine",
        "apex",
    ]
)
_ENDINGS = (
    "_cuda_out",
    "_kernel_cuda",
    "_kernel_impl",
    "_cuda_kernel",
    "_kernel",
    "_cuda",
    "_functor",
    "_ops",
    "_impl",
    "_math",
)
_COPIES = (
    "direct_copy",
    "copy",
    "float8_copy",
    "bfloat16_copy",
    "bfloat16tofloat32_copy",
    "load_with_cast",
    "copy_kernel",
)
_OPTIMIZERS = ("adam", "lamb", "sgd", "adagrad", "rmsprop", "lars", "novograd", "adamw", "lion")
_RANDOM = (
    "uniform",
    "normal",
    "bernoulli",
    "exponential",
    "random",
    "cauchy",
    "geometric",
    "poisson",
    "dropout",
    "multinomial",
)


def pytorch(split: SplitName) -> KernelName | None:
    """A loop, a reduction or a foreach kernel of PyTorch (or of Apex, which has the last as well)."""
    function = split.function
    if function in _LOOPS:
        return _loop(split)
    if function == "reduce_kernel" and "ReduceOp" in split.words:
        operation = functor(split.words)
        return KernelName(
            "reduction", operation, "pytorch", dtype=type_of(split.words), function=f"reduce_kernel {operation}"
        )
    if function in ("multi_tensor_apply_kernel", "multi_tensor_apply_for_fused_optimizer"):
        return _foreach(split)
    if function.startswith("distribution_") or function.startswith("fused_dropout"):
        words = split.words
        kind = next((each for each in _RANDOM if any(each in word for word in (function, *words))), UNKNOWN)
        return KernelName("random", kind, "pytorch", dtype=type_of(words), function=function)
    return None


def functor(words: Iterable[str]) -> str:
    """What the loop does, in snake case: ``CUDAFunctorOnSelf_add`` is ``add``."""
    for word in words:
        if word not in _WRAPPERS and word not in WORDS and not word.isdigit():
            return _plain(word)
    return UNKNOWN


def _plain(word: str) -> str:
    if word.startswith("CUDAFunctor"):
        word = word.partition("_")[2] or word
    for ending in ("CUDAKernelImpl", "KernelImpl", "CudaKernel", "Functor", "Ops", "Impl"):
        word = word.removesuffix(ending)
    text = word if "_" in word else "_".join(parts_of(word))
    for ending in _ENDINGS:
        text = text.removesuffix(ending)
    return text.strip("_").removeprefix("launch_").removesuffix("_scalar").lower() or UNKNOWN


def _loop(split: SplitName) -> KernelName:
    operation = functor(split.words)
    family = "elementwise"
    if operation in _COPIES or operation.endswith("_copy"):
        family = "copy"
    elif operation in ("fill", "zero", "arange", "linspace", "eye"):
        family = "fill"
    elif split.function.startswith("index") or operation.startswith(
        ("index", "take", "put", "masked_", "gather", "scatter", "flip")
    ):
        family = "indexing"
    elif any(each in operation for each in ("quantize", "quant_")):
        family = "quantisation"
    elif any(operation.startswith(each) for each in _RANDOM):
        family = "random"
    elif operation.startswith(("batch_norm", "group_norm", "layer_norm")):
        family = "normalisation"
    elif operation.endswith("_loss") or "_loss_" in operation or "cross_entropy" in operation:
        family = "loss"
    return KernelName(
        family, operation, "pytorch", dtype=type_of(split.words), function=f"{split.function} {operation}"
    )


def _foreach(split: SplitName) -> KernelName:
    operation = functor(split.words)
    parts = set(operation.split("_"))
    optimizer = next(
        (each for each in _OPTIMIZERS if each in parts or any(part.startswith(each) for part in parts)), None
    )
    named = set(split.words)
    if optimizer is None and operation.startswith(("binary_op", "unary_op", "pointwise_op", "ternary_op")):
        operation = next(
            (word for word in ("plus", "minus", "multiplies", "divides", "maximum", "minimum", "Sqrt", "Exp") if word in named),
            operation,
        ).lower()  # fmt: skip
    if operation.replace("_", "").startswith(("lpnorm", "l2norm", "norm")):
        return KernelName(
            "reduction", "foreach_norm", "pytorch", dtype=type_of(split.words), function=f"foreach {operation}"
        )
    return KernelName(
        "optimizer" if optimizer else "copy" if operation.startswith("copy") else "elementwise",
        optimizer or f"foreach_{operation.removesuffix('_op')}", "pytorch" if split.scope == "at" else "apex",
        dtype=type_of(split.words), function=f"foreach {operation}",
    )  # fmt: skip
