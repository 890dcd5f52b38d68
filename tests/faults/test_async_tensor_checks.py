"""What ``--check async`` finds in uses of tensor memory and at the ends of blocks, each in a kernel beside one that
does it right."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim.errors import ExecutionError
from gpusim.sanitizer.findings import Finding

#: Warp 3 allocates, all store into tensor memory, thread 96 multiplies twice, all load, it multiplies again, warp 3
#: frees; the tests change one line.
TENSOR = r"""
#include <cstdint>
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void await(unsigned bar, int parity) {
  unsigned done;
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                  : "=r"(done) : "r"(bar), "r"(parity) : "memory"); while (!done);
}
__device__ void multiply(unsigned d, unsigned s, int accumulate) {
  uint64_t m = s >> 4 | 8ull << 16 | 16ull << 32 | 1ull << 46;
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %2, p; }"
    :: "r"(d), "l"(m), "r"(1 << 4 | 16 >> 3 << 17 | 8 << 24), "r"(accumulate) : "memory");
}
extern "C" __global__ void __launch_bounds__(128) work(unsigned* out) {
  extern __shared__ __align__(1024) char s[]; __shared__ unsigned long long b, c; __shared__ unsigned held, more;
  unsigned r = 0, x = 1;
  if (threadIdx.x >= 96) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" :: "r"(at(&held)) : "memory");
  if (threadIdx.x >= 96) asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); /*relinquish*/
  if (threadIdx.x < 2) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(threadIdx.x ? &c : &b)) : "memory");
  for (int i = threadIdx.x; i < 2048; i += 128) ((unsigned*)s)[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();
  unsigned m = held, mine = m + (threadIdx.x / 32 << 21);
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(mine), "r"(x) : "memory"); /*store*/
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); /*stored*/
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); __syncthreads(); /*together*/
  if (threadIdx.x == 96) {
    multiply(m, at(s), 0); /*first*/
    multiply(m, at(s), 1);
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(at(&b)) : "memory");
  }
  await(at(&b), 0); /*wait*/
  __syncthreads();
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r) : "r"(mine)); /*load*/
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  __syncthreads(); /*loaded*/
  if (threadIdx.x == 96) { /*again*/
    multiply(m, at(s), 0); /*again*/
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(at(&c)) : "memory"); /*again*/
  } /*again*/
  await(at(&c), 0); /*again*/
  __syncthreads(); /*last*/
  if (threadIdx.x >= 96) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" :: "r"(m)); /*free*/
  out[threadIdx.x] = r;
}
"""
READ_EARLY = "Tensor memory read before the work that writes it is complete"
OVER_READ = "Tensor core overwrites tensor memory that a warp may still read"
MORE = 'asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(at(&more)) : "memory");'


def found(source: str, name: str, gpu: str, grid: int = 1, args: tuple = (), threads: int = 128) -> list[Finding]:
    arch = "-arch=sm_90a" if gpu == "h200" else "-arch=sm_100a"
    kernel = gpusim.cuda_cpp(source, name, [arch])
    return gpusim.capture(
        kernel, grid, threads, (np.zeros(256, np.uint32), *args), gpu=gpu, shared_bytes=8192, check=["async"]
    ).findings


def tensor_work(left_out: str = "", change: tuple[str, str] = ("", "")) -> list[Finding]:
    lines = [line for line in TENSOR.splitlines() if not left_out or f"/*{left_out}*/" not in line]
    text = "\n".join(lines)
    assert not change[0] or change[0] in text
    return found(text.replace(*change) if change[0] else text, "work", "b200")


def test_nothing_is_found_where_tensor_memory_is_used_right() -> None:
    assert not tensor_work()
    assert not tensor_work("again")


@pytest.mark.parametrize(
    ("left_out", "what", "where", "other_where"),
    [
        ("wait", READ_EARLY, "LDTM", "UTCHMMA"),
        ("stored", "Missing tcgen05.wait::st", "UTCHMMA", "STTM"),
        ("together", "Tensor core uses tensor memory that a warp may still write", "UTCHMMA", "STTM"),
        ("loaded", OVER_READ, "UTCHMMA", "LDTM"),
        ("last", "Tensor memory freed that a warp may still access", "UTCATOMSWS.AND", "LDTM"),
    ],
)
def test_what_is_left_out_is_found(left_out: str, what: str, where: str, other_where: str) -> None:
    change = ("multiply(m, at(s), 0); /*first*/", "multiply(m, at(s), 1);") if left_out == "stored" else ("", "")
    if left_out == "last":  # nothing else that orders the loads before the end
        change = ("__syncthreads(); /*loaded*/", "")
    names = tensor_work(left_out, change)
    each = next((one for one in names if one.what == what), None)
    assert each is not None, [one.what for one in names]
    assert each.tool == "racecheck" and where in each.where and other_where in each.other_where


def test_a_store_over_columns_that_a_product_uses_is_found() -> None:
    late = 'asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(mine), "r"(x) : "memory"); await(at(&b), 0);'
    names = [one.what for one in tensor_work(change=("await(at(&b), 0); /*wait*/", late))]
    assert "Tensor memory overwritten while the tensor core uses it" in names


def test_memory_that_is_freed_before_its_product_is_complete_is_found() -> None:
    names = [one.what for one in tensor_work(change=("await(at(&c), 0); /*again*/", ""))]
    assert "Tensor memory freed while the tensor core uses it" in names
    assert "Block ends while the tensor core reads its shared memory" in names


def test_columns_that_nothing_has_written_are_found() -> None:
    names = tensor_work(change=("multiply(m, at(s), 0); /*first*/", "multiply(m + 16, at(s), 1);"))
    each = next(one for one in names if one.what == "Uninitialized tensor memory read")
    assert each.tool == "initcheck" and "UTCHMMA" in each.where and "column 16" in each.detail


def test_memory_that_is_allocated_after_the_permit_was_given_up_is_found() -> None:
    line = next(each for each in TENSOR.splitlines() if "/*relinquish*/" in each)
    names = tensor_work(change=(line, f"{line} if (threadIdx.x >= 96) {{ {MORE} }}"))
    each = next(one for one in names if one.what == "Tensor memory allocated after relinquish_alloc_permit")
    assert each.tool == "synccheck" and "FIND_AND_SET" in each.where


def test_memory_whose_allocation_a_warp_may_not_know_of_is_found() -> None:
    """Warp 3 hands the address over by a word that another warp only looks at."""
    meet = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();\n'
    assert meet in TENSOR
    late = "volatile unsigned* told = &held; if (threadIdx.x < 96) while (*told == 0xffffffff); __syncwarp();\n"
    first = 'if (threadIdx.x == 0) held = 0xffffffff; __syncthreads();\n  if (threadIdx.x >= 96) asm volatile("tcgen05.alloc'
    text = TENSOR.replace(meet, late).replace('if (threadIdx.x >= 96) asm volatile("tcgen05.alloc', first, 1)
    names = found(text, "work", "b200")
    each = next(one for one in names if one.what == "Tensor memory used before its allocation is visible")
    assert each.tool == "racecheck" and "STTM" in each.where and "FIND_AND_SET" in each.other_where
    assert "source.cu:" in each.where and each.other_thread == (96, 0, 0)


def test_memory_that_is_used_or_freed_when_it_is_freed_is_an_error() -> None:
    line = next(each for each in TENSOR.splitlines() if "/*free*/" in each)
    use = '__syncthreads(); asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(mine), "r"(x) : "memory");'
    for more, said in (
        (use, "columns that the block has not allocated, or has freed"),
        (line, "have been freed already"),
    ):
        with pytest.raises(ExecutionError, match=said) as caught:
            tensor_work(change=(line, f"{line}\n {more}"))
        assert "work: block (0, 0, 0), thread" in str(caught.value) and "source.cu:" in str(caught.value)


@pytest.mark.parametrize("count", [0, 1 << 20])
def test_a_count_that_no_mbarrier_can_have_is_found(count: int) -> None:
    source = r"""
extern "C" __global__ void work(unsigned* out, unsigned n) {
  __shared__ unsigned long long b; unsigned at = (unsigned)__cvta_generic_to_shared(&b);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(n) : "memory");
  out[0] = n;
}"""
    names = found(source, "work", "h200", args=(np.uint32(count),))
    assert [one.what for one in names] == ["mbarrier initialised for a count out of range"] and "SYNCS.EXCH" in names[
        0
    ].where
    assert not found(source, "work", "h200", args=(np.uint32((1 << 20) - 1),))


#: A bulk load and a bulk store of each block, a store of the first into the other's shared memory, and the barrier of
#: the cluster.
ENDS = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void await(unsigned bar, int parity) {
  unsigned done;
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                  : "=r"(done) : "r"(bar), "r"(parity) : "memory"); while (!done);
}
extern "C" __global__ void __cluster_dims__(2) ends(unsigned* out) {
  extern __shared__ __align__(1024) char s[]; __shared__ unsigned long long b; unsigned there, rank;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&b)) : "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 64;" :: "r"(at(&b)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];"
      :: "r"(at(s)), "l"(out), "r"(at(&b)) : "memory");
  }
  await(at(&b), 0); /*wait*/
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" :: "l"(out + 32), "r"(at(s)) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); /*read*/
  }
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(s) + 1024), "r"(rank ^ 1));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (rank == 0) asm volatile("st.shared::cluster.u32 [%0], 1;" :: "r"(there) : "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); /*cluster*/
}
"""


def ends(left_out: str = "", change: tuple[str, str] = ("", "")) -> list[Finding]:
    text = "\n".join(line for line in ENDS.splitlines() if not left_out or f"/*{left_out}*/" not in line)
    return found(text.replace(*change) if change[0] else text, "ends", "h200", grid=2, threads=64)


def test_nothing_is_found_where_a_block_ends_when_all_is_done() -> None:
    assert not ends()


@pytest.mark.parametrize(
    ("left_out", "what", "where"),
    [
        ("wait", "Block ends while a bulk load fills its shared memory", "UBLKCP.S.G"),
        ("cluster", "Block ends while another of its cluster may still access its shared memory", "ST"),
    ],
)
def test_a_block_that_ends_too_early_is_found(left_out: str, what: str, where: str) -> None:
    each = next((one for one in ends(left_out) if one.what == what), None)
    assert each is not None and each.tool == "racecheck" and where in each.where
    assert each.other_thread == (32, 0, 0)  # of the warp that ends last


def test_a_bulk_store_may_still_read_when_its_block_ends() -> None:
    """CUTLASS's epilogues for sm_100 end so, and nothing in PTX asks for more."""
    assert not ends("read")


def test_a_wait_for_the_wrong_parity_is_named() -> None:
    issue = '  if (threadIdx.x == 0) {\n    asm volatile("mbarrier.arrive'
    assert issue in ENDS
    names = ends("wait", (issue, f"await(at(&b), 1); __syncthreads();\n{issue}"))
    each = next(one for one in names if one.what.startswith("Wait for the wrong parity"))
    assert "UBLKCP.G.S" in each.where and "SYNCS.PHASECHK" in each.other_where and "phase 0" in each.detail


PAIRED = r"""
struct alignas(64) Map { char bytes[128]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void __cluster_dims__(2) paired(const __grid_constant__ Map m, float* out) {
  extern __shared__ __align__(1024) float s[]; __shared__ unsigned long long b; unsigned done, rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&b)) : "memory");
    if (rank == 0) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(at(&b)) : "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (rank == 1 && threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2"
      " [%0], [%1, {0, 0}], [%2], %3;" :: "r"(at(s)), "l"(&m), "r"(at(&b) & 0xFEFFFFFF), "h"((short)3) : "memory");
  if (rank == 0 && WAITS)
    do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                    : "=r"(done) : "r"(at(&b)) : "memory"); while (!done);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x < 16) out[16 * rank + threadIdx.x] = s[threadIdx.x];
}
"""


def test_a_multicast_of_a_pair_of_blocks_tells_the_first_block_of_what_both_receive() -> None:
    x, out = np.arange(16, dtype=np.float32).reshape(4, 4), np.zeros((2, 4, 4), np.float32)
    for waits in (1, 0):
        kernel = gpusim.cuda_cpp(PAIRED, "paired", ["-arch=sm_100a", f"-DWAITS={waits}"])
        args = (gpusim.TensorMap(x, (4, 4), swizzle="none"), out)
        found = gpusim.capture(kernel, 2, 32, args, gpu="b200", shared_bytes=1024, check=["async"]).findings
        assert (out == x).all() and bool(found) != waits
        assert waits or "Shared memory read before the bulk load into it is complete" in [each.what for each in found]
