"""What ``--check async`` finds of ``cp.async`` (LDGSTS), each in a kernel beside one that does it right."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim.sanitizer.findings import Finding

#: Two buffers in turn, each filled by cp.async while the other is read; the tests take one part of it away, or change
#: it.
SOURCE = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy(int* to, const int* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(to)), "l"(from) : "memory");
}
extern "C" __global__ void turns(int* out, const int* in) {
  __shared__ int s[2][128]; int t = threadIdx.x, sum = 0;
  copy(&s[0][t], in + t);
  asm volatile("cp.async.commit_group;");
  for (int i = 0; i < 4; i++) {
    if (i < 3) copy(&s[(i + 1) & 1][t], in + 128 * (i + 1) + t);
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory"); /*wait*/
    __syncthreads(); /*filled*/
    sum += s[i & 1][127 - t];
    __syncthreads(); /*read*/
  }
  out[t] = sum;
}
"""
#: The same told by an mbarrier, which sm_80 has no wait of.
ARRIVES = r"""
extern "C" __global__ void arrives(int* out, const int* in) {
  __shared__ int s[128]; __shared__ unsigned long long b; unsigned done; int t = threadIdx.x;
  if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" :: "r"(at(&b)) : "memory");
  __syncthreads();
  copy(&s[t], in + t);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at(&b)) : "memory"); /*arrive*/
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                  : "=r"(done) : "r"(at(&b)) : "memory"); while (!done);
  out[t] = s[127 - t];
}
"""
READ, WRITTEN, TWICE = (
    "Shared memory read before the cp.async into it is complete", "Shared memory written while a cp.async fills it",
    "Two copies of cp.async fill the same shared memory",
)  # fmt: skip
WAIT = 'asm volatile("cp.async.wait_group 1;" ::: "memory"); /*wait*/'


def findings(kernel: str = "turns", gpu: str = "h200", change: tuple[str, str] = ("", "")) -> list[Finding]:
    source = SOURCE if kernel == "turns" else SOURCE + ARRIVES
    assert change[0] in source
    text = source.replace(*change) if change[0] else source
    built = gpusim.cuda_cpp(text, kernel, ["-arch=" + {"h200": "sm_90a", "a100_80gb": "sm_80"}[gpu]])
    given, out = np.arange(512, dtype=np.int32), np.zeros(128, np.int32)
    trace = gpusim.capture(built, 2, 128, (out, given), gpu=gpu, check=["async"])  # one block after another
    expected = given.reshape(4, 128).sum(axis=0) if kernel == "turns" else given[:128]
    if "s[(i + 1) & 1][t] =" not in change[1]:
        assert (out == expected[::-1]).all()  # the emulator copies at once: a missing wait shows in no result
    return list(trace.findings)


@pytest.mark.parametrize("gpu", ["h200", "a100_80gb"])
def test_nothing_is_found_where_copies_are_waited_for(gpu: str) -> None:
    assert not findings(gpu=gpu)
    assert gpu != "h200" or not findings("arrives")


@pytest.mark.parametrize(
    ("change", "what", "where"),
    [
        ((WAIT, ""), READ, "LDS"),
        ((WAIT, WAIT.replace("1;", "2;")), READ, "LDS"),  # one group too few
        (("__syncthreads(); /*filled*/", ""), READ, "LDS"),  # the reader knows of its own copies alone
        ((WAIT, f"s[(i + 1) & 1][t] = 0; {WAIT}"), WRITTEN, "STS"),
        ((WAIT, f"if (i < 3) copy(&s[(i + 1) & 1][t], in + 128 * (i + 1) + t); {WAIT}"), TWICE, "LDGSTS"),
    ],
)
def test_a_buffer_that_is_used_while_its_copy_is_in_flight_is_found(
    change: tuple[str, str], what: str, where: str
) -> None:
    found = findings(change=change)
    each = next((one for one in found if one.what == what), None)
    assert each is not None, [one.what for one in found]
    assert each.tool == "racecheck" and where in each.where and "LDGSTS" in each.other_where
    assert "source.cu:" in each.where and "cp.async.wait_group" in each.detail


def test_an_arrival_that_does_not_wait_for_the_copies_is_found() -> None:
    line = next(each for each in ARRIVES.splitlines() if "/*arrive*/" in each)
    plain = '  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&b)) : "memory");'
    assert READ in [each.what for each in findings("arrives", change=(line, plain))]
