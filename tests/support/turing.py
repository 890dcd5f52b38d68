"""What of the suite asks for more than Turing has: asynchronous copies, tensor cores of 16 x 8 x 16. Its compilation is refused."""

from __future__ import annotations

BEYOND_TURING = frozenset({"cpp_hgemm", "cpp_igemm", "cpp_gemm_w4a16", "cpp_attention"})
