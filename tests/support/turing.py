"""What of the suite asks for more than Turing has: asynchronous copies, tensor cores of 16 x 8 x 16. Its compilation is
refused."""

from __future__ import annotations

BEYOND_TURING = frozenset({"cpp_hgemm", "cpp_igemm", "cpp_gemm_w4a16", "cpp_attention"})
#: What Volta does not have either: matrix loads and m16n8k8; and barriers over the grid, for which CUDA 13 has no code.
BEYOND_VOLTA = BEYOND_TURING | {"hgemm_tensor", "igemm_int8", "row_sums_linked", "tensor_pipe", "jacobi_grid_sync"}
