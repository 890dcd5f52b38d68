"""What ``--check async`` finds in Hopper's and Blackwell's asynchronous work, each in a kernel beside one that does it
right."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim.errors import DeadlockError
from gpusim.sanitizer.findings import Finding

BYTES = 1024
#: A bulk load, a wait, stores, a bulk store by thread 0 behind a barrier; the tests take one part of it away.
SOURCE = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void await(unsigned bar, int parity) {
  unsigned done;
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                  : "=r"(done) : "r"(bar), "r"(parity) : "memory"); while (!done);
}
__device__ void load(unsigned to, const char* from, int bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
extern "C" __global__ void copies(char* out, const char* in, int bytes) {
  extern __shared__ __align__(1024) char s[]; __shared__ unsigned long long b;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&b)));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads(); /*init*/
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&b)), "r"(bytes));
    load(at(s), in, bytes, at(&b)); /*load*/
  }
  await(at(&b), 0); /*wait*/
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) s[i] += 1;
  asm volatile("fence.proxy.async.shared::cta;":::"memory"); /*fence*/
  __syncthreads(); /*written*/
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(out), "r"(at(s)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group.read 0;":::"memory"); /*read*/
  }
  __syncthreads();
  s[threadIdx.x] = 0;
  asm volatile("fence.proxy.async.shared::cta;":::"memory");
  __syncthreads(); /*reused*/
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&b)), "r"(bytes));
    load(at(s), in, bytes, at(&b));
  }
  await(at(&b), 1);
  if (threadIdx.x == 40) out[bytes] = s[1];
}
"""
ARCHITECTURES = {"h200": "sm_90a", "b200": "sm_100a"}


def findings(left_out: str = "", gpu: str = "h200", change: tuple[str, str] = ("", "")) -> list[Finding]:
    """What is found in the kernel without its lines that end with the comment ``left_out``, with ``change`` (old,
    new)."""
    lines = SOURCE.splitlines()
    kept = [line for line in lines if not left_out or f"/*{left_out}*/" not in line]
    assert not left_out or len(kept) == len(lines) - 1
    text = "\n".join(kept).replace(*change) if change[0] else "\n".join(kept)
    kernel = gpusim.cuda_cpp(text, "copies", options=(f"-arch={ARCHITECTURES[gpu]}",))
    out, given = np.zeros(BYTES + 16, np.uint8), np.arange(BYTES).astype(np.uint8)
    trace = gpusim.capture(kernel, 1, 64, (out, given, BYTES), gpu=gpu, shared_bytes=BYTES, check=["async"])
    return trace.findings


@pytest.mark.parametrize("gpu", sorted(ARCHITECTURES))
def test_nothing_is_found_where_all_is_right(gpu: str) -> None:
    assert not findings(gpu=gpu)


@pytest.mark.parametrize(
    ("left_out", "tool", "what", "where", "other_where"),
    [
        ("wait", "racecheck", "Shared memory read before the bulk load into it is complete", "LDS", "UBLKCP.S.G"),
        ("fence", "racecheck", "Missing fence between proxies", "UBLKCP.G.S", "STS"),
        ("written", "racecheck", "Shared memory overwritten while a bulk store reads it", "STS", "UBLKCP.G.S"),
        ("read", "racecheck", "Shared memory overwritten while a bulk store reads it", "STS", "UBLKCP.G.S"),
        ("reused", "racecheck", "Bulk load and store into the same shared memory", "UBLKCP.S.G", "STS"),
        ("init", "synccheck", "mbarrier used before its initialisation is visible", "SYNCS.PHASECHK", "SYNCS.EXCH"),
    ],
)
def test_what_is_left_out_is_found(left_out: str, tool: str, what: str, where: str, other_where: str) -> None:
    found = [each for each in findings(left_out) if each.what == what]
    assert found, [each.what for each in findings(left_out)]
    assert found[0].tool == tool and where in found[0].where and other_where in found[0].other_where


def test_a_store_over_an_mbarrier_is_found() -> None:
    found = findings(change=("s[threadIdx.x] = 0;", "s[threadIdx.x] = 0; *(volatile int*)&b = 3;"))
    assert "mbarrier overwritten by a store" in [each.what for each in found]


def test_two_loads_into_the_same_memory_are_found() -> None:
    twice = "load(at(s), in, bytes / 2, at(&b)); load(at(s), in, bytes / 2, at(&b)); /*load*/"
    found = findings(change=("load(at(s), in, bytes, at(&b)); /*load*/", twice))
    assert "Two bulk loads fill the same shared memory" in [each.what for each in found]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((' "r"(bytes));\n    load(at(s), in, bytes, at(&b)); /*load*/', ' "r"(2 * bytes));\n load(at(s), in, bytes, at(&b));'),
         "parity 0, to which 0 of 1 arrivals are missing and 1024 bytes that are expected"),
        ((' "r"(bytes));\n    load(at(s), in, bytes, at(&b)); /*load*/', ' "r"(bytes / 2));\n load(at(s), in, bytes, at(&b));'),
         "0 of 1 arrivals are missing, and 512 bytes more than are expected have come"),
        (("await(at(&b), 0); /*wait*/", "await(at(&b), 1);"), "parity 1, to which 1 of 1 arrivals are missing; the warp waits"),
    ],
)  # fmt: skip
def test_a_deadlock_says_where_the_mbarrier_stands(change: tuple[str, str], said: str) -> None:
    with pytest.raises(DeadlockError, match=said) as caught:
        findings(change=change)
    assert "the mbarrier at byte 0x" in str(caught.value) and "SYNCS.PHASECHK" in str(caught.value)


def test_a_phase_that_is_prepared_and_not_needed_is_no_finding_and_one_that_lacks_bytes_is() -> None:
    """Pipelines prepare a buffer's next phase before they know that there is no more to load."""
    last = "if (threadIdx.x == 40) out[bytes] = s[1];"
    expect = r'if (threadIdx.x == 0) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&b)), "r"(bytes)); '
    assert last in SOURCE and not findings(change=(last, f"{last} {expect} }}"))
    found = findings(change=(last, f"{last} __syncthreads(); {expect} load(at(s), in, bytes / 2, at(&b)); }}"))
    each = next(one for one in found if one.what == "Fewer bytes arrive at the mbarrier than are expected")
    assert each.tool == "synccheck" and "512 bytes have not come" in each.detail and "SYNCS.ARRIVE" in each.where
