"""What a kernel's name says: texts, so that time can be grouped by any of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

#: Of whatever a name does not say.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class KernelName:
    """``family``: of :data:`FAMILIES`; ``operation``: which of it (``gemm``, ``all_reduce``, ``add``), in the library's
    words.

    ``dtype``: of the operands (``bf16``, ``tf32``, ``fp8_e4m3``, ``int64``), ``accumulator``: of the sums; ``tile``:
    elements of a block, MxN or MxNxK (attention: queries x keys x the head's size); ``stages``: buffers of the
    pipeline; ``cluster``: blocks; ``architecture``: ``sm80``, or a chip's generation where the library says no more;
    ``layout``: of the operands, as the library writes it; ``unit``: ``tensor core`` or ``simt``; ``function``: the name
    without namespaces, arguments and parameters. Each is UNKNOWN where the name does not say it.
    """

    family: str = UNKNOWN
    operation: str = UNKNOWN
    library: str = UNKNOWN
    dtype: str = UNKNOWN
    accumulator: str = UNKNOWN
    tile: str = UNKNOWN
    stages: str = UNKNOWN
    cluster: str = UNKNOWN
    architecture: str = UNKNOWN
    layout: str = UNKNOWN
    unit: str = UNKNOWN
    function: str = UNKNOWN

    @property
    def is_known(self) -> bool:
        """Whether the name says what the kernel does."""
        return self.family != UNKNOWN


#: The columns of a name.
FIELDS = tuple(field.name for field in fields(KernelName))
#: What ``family`` may be.
FAMILIES = (
    "matrix_product", "convolution", "attention", "kv_cache", "mixture_of_experts", "normalisation", "softmax", "loss", "elementwise",
    "reduction", "optimizer", "embedding", "position_embedding", "indexing", "layout", "copy", "fill", "quantisation", "sampling",
    "sort_scan", "random", "pooling", "resampling", "state_space", "recurrent", "sparse", "fourier", "solver", "communication",
    UNKNOWN,
)  # fmt: skip
