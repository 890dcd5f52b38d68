"""CUDA C++ kernels of one bulk copy each, for tests: a block of 32 threads fills shared memory, copies, waits, and
shows it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import gpusim
from gpusim.frontend.registry import front_end_of
from gpusim.isa.target import make_target

_HEAD = r"""
struct alignas(64) Map { char bytes[128]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void expect(unsigned bar, int bytes) {
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("fence.proxy.async;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes));
  }
  __syncthreads();
}
__device__ void await(unsigned bar, int parity = 0) {
  unsigned done;
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                  : "=r"(done) : "r"(bar), "r"(parity) : "memory"); while (!done);
}
__device__ void fill(char* s, const char* from, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += 32) s[i] = from ? from[i] : (char)0xee;
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
}
__device__ void show(char* to, const char* s, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += 32) to[i] = s[i];
}
#define GROUP asm volatile("cp.async.bulk.commit_group;"); asm volatile("cp.async.bulk.wait_group 0;");
#define SHARED extern __shared__ __align__(1024) char s[]; __shared__ unsigned long long b;
"""


def _coordinates(count: int, first: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def _inputs(names: str, constraint: str = "r") -> str:
    return ", ".join(f'"{constraint}"({name})' for name in names.split())


_AT = "c0 c1 c2 c3 c4"


def load_kernel(name: str, rank: int, mode: str = "tile") -> str:
    """``name(map, out, bytes, expected, c0 .. c4, o0 .. o2)``: loads a box and shows ``bytes`` of shared memory."""
    coordinates = 5 if "gather4" in mode else rank
    offsets = ""
    names = " ".join(_AT.split()[:coordinates])
    inputs = f'"r"(at(s)), "l"(&m), "r"(at(&b)), {_inputs(names)}'
    if "im2col::w" in mode:
        offsets = f", {{%{3 + coordinates}, %{4 + coordinates}}}"
        inputs += ', "h"((short)o0), "h"((short)o1)'
    if mode == "im2col":
        offsets = ", {" + ", ".join(f"%{3 + coordinates + i}" for i in range(rank - 2)) + "}"
        inputs += ", " + ", ".join(f'"h"((short)o{i})' for i in range(rank - 2))
    return f"""
extern "C" __global__ void {name}(const __grid_constant__ Map m, char* out, int bytes, int expected, int c0, int c1, int c2,
                                  int c3, int c4, int o0, int o1, int o2) {{
  SHARED; fill(s, 0, bytes); expect(at(&b), expected);
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
      " [%0], [%1, {_coordinates(coordinates, 3)}], [%2]{offsets};" :: {inputs} : "memory");
  await(at(&b)); show(out, s, bytes);
}}"""


def store_kernel(name: str, rank: int, mode: str = "tile", reduction: str = "") -> str:
    """``name(map, in, bytes, c0 .. c4)``: stores ``bytes`` from ``in`` by way of shared memory."""
    coordinates = 5 if "scatter4" in mode else rank
    names = " ".join(_AT.split()[:coordinates])
    verb = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduction}"
        if reduction
        else (f"cp.async.bulk.tensor.{rank}d.global.shared::cta")
    )
    return f"""
extern "C" __global__ void {name}(const __grid_constant__ Map m, const char* in, int bytes, int c0, int c1, int c2, int c3,
                                  int c4) {{
  SHARED; fill(s, in, bytes);
  if (threadIdx.x == 0) {{
    asm volatile("{verb}.{mode}.bulk_group [%0, {_coordinates(coordinates, 2)}], [%1];"
      :: "l"(&m), "r"(at(s)), {_inputs(names)} : "memory");
    GROUP
  }}
}}"""


def bytes_reduction(name: str, suffix: str) -> str:
    """``name(to, in, bytes)``: reduces bytes into global memory."""
    return f"""
extern "C" __global__ void {name}(char* to, const char* in, int bytes) {{
  SHARED; fill(s, in, bytes);
  if (threadIdx.x == 0) {{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.{suffix} [%0], [%1], %2;" :: "l"(to), "r"(at(s)), "r"(bytes) : "memory");
    GROUP
  }}
}}"""


TENSOR_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
BYTE_REDUCTIONS = (
    "and.b32", "or.b64", "xor.b32", "add.u32", "add.s32", "add.u64", "inc.u32", "dec.u32", "min.s32", "max.u32", "min.s64",
    "max.u64", "add.noftz.f16", "add.noftz.bf16", "add.f32", "add.f64", "min.f16", "max.bf16",
)  # fmt: skip

_PLAIN = r"""
extern "C" __global__ void bytes_there_and_back(char* to, const char* from, int bytes, int mask) {
  SHARED; fill(s, 0, 4 * bytes); expect(at(&b), 2 * bytes);
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(at(s)), "l"(from), "r"(bytes), "r"(at(&b)) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(at(s + 2 * bytes)), "r"(at(s)), "r"(bytes), "r"(at(&b)) : "memory");
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(from), "r"(bytes));
  }
  await(at(&b));
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(to), "r"(at(s + 2 * bytes)), "r"(bytes) : "memory");
    GROUP
  }
}
extern "C" __global__ void reduce_in_shared(unsigned* to, const char* in, int bytes) {
  SHARED; fill(s, in, 2 * bytes); expect(at(&b), bytes);
  if (threadIdx.x == 0)
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.s32 [%0], [%1], %2, [%3];"
      :: "r"(at(s)), "r"(at(s + bytes)), "r"(bytes), "r"(at(&b)) : "memory");
  await(at(&b)); show((char*)to, s, bytes);
}
"""
_WIDE_FIELDS = ("global_address", "global_stride")


def replace_kernel(name: str, space: str) -> str:
    """``name(map, out, address, width, height, stride)``: makes a map of 2 dimensions of float32, tiles of 8 x 4, out
    of zeros in ``space`` memory, and loads the tile at (1, 2)."""
    steps = [
        ("global_address", "", "address"), ("rank", "", "1"), ("box_dim", "0, ", "8"), ("box_dim", "1, ", "4"),
        ("global_dim", "0, ", "width"), ("global_dim", "1, ", "height"), ("global_stride", "0, ", "stride"),
        ("element_stride", "0, ", "1"), ("element_stride", "1, ", "1"),
    ]  # fmt: skip
    where = '"r"(at(t))' if "shared" in space else '"l"(map)'
    code = ""
    for field, order, value in steps:
        kind, constraint = ("b64", "l") if field in _WIDE_FIELDS else ("b32", "r")
        text = f"tensormap.replace.tile.{field}.{space}.b1024.{kind} [%0], {order}%1;"
        code += f'asm volatile("{text}" :: {where}, "{constraint}"({value}));\n'
    for field, value in (("elemtype", 7), ("interleave_layout", 0), ("swizzle_mode", 0), ("fill_mode", 0)):
        code += f'asm volatile("tensormap.replace.tile.{field}.{space}.b1024.b32 [%0], {value};" :: {where});\n'
    publish = ""
    if "shared" in space:
        publish = (
            'asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"'
            ' :: "l"(map), "r"(at(t)) : "memory");'
        )
    return f"""
extern "C" __global__ void {name}(char* map, char* out, unsigned long long address, int width, int height,
                                  unsigned long long stride) {{
  SHARED; __shared__ alignas(128) char t[128];
  for (int i = threadIdx.x; i < 128; i += 32) t[i] = 0;
  __syncwarp();
  if (threadIdx.x == 0) {{ {code} }}
  __syncwarp();
  {publish}
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
  expect(at(&b), 128);
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {{%3, %4}}], [%2];"
      :: "r"(at(s)), "l"(map), "r"(at(&b)), "r"(1), "r"(2) : "memory");
  await(at(&b)); show(out, s, 128);
}}"""


_MULTICAST = r"""
extern "C" __global__ void __cluster_dims__(4, 1, 1) multicast(const __grid_constant__ Map m, char* out, int mask) {
  SHARED; unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  fill(s, 0, 256); expect(at(&b), mask >> rank & 1 ? 256 : 0);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (rank == 1 && threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4}], [%2], %5;" :: "r"(at(s)), "l"(&m), "r"(at(&b)), "r"(0), "r"(1), "h"((short)mask) : "memory");
  await(at(&b)); show(out + 256 * rank, s, 256);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""

_MASKED = r"""
extern "C" __global__ void masked(char* to, const char* in, int bytes, int mask) {
  SHARED; fill(s, in, bytes);
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%0], [%1], %2, %3;"
      :: "l"(to), "r"(at(s)), "r"(bytes), "h"((short)mask) : "memory");
    GROUP
  }
}
"""

SOURCE = "".join(
    (
        _HEAD,
        *(load_kernel(f"load_{rank}d", rank) for rank in range(1, 6)),
        *(load_kernel(f"columns_{rank}d", rank, "im2col") for rank in range(3, 6)),
        *(store_kernel(f"store_{rank}d", rank) for rank in range(1, 6)),
        *(store_kernel(f"store_columns_{rank}d", rank, "im2col_no_offs") for rank in range(3, 6)),
        *(store_kernel(f"reduce_{name}", 2, reduction=name) for name in TENSOR_REDUCTIONS),
        *(bytes_reduction(f"bytes_{name.replace('.', '_')}", name) for name in BYTE_REDUCTIONS),
        _PLAIN, _MULTICAST,
        replace_kernel("replace_in_shared", "shared::cta"), replace_kernel("replace_in_global", "global"),
    )
)  # fmt: skip
#: For sm_100 alone.
ROWS_SOURCE = "".join(
    (
        _HEAD,
        load_kernel("gather", 2, "tile::gather4"),
        store_kernel("scatter", 2, "tile::scatter4"),
        *(load_kernel(f"wide_{rank}d", rank, "im2col::w") for rank in range(3, 6)),
        *(load_kernel(f"wide_128_{rank}d", rank, "im2col::w::128") for rank in range(3, 6)),
        _MASKED,
    )
)


@cache
def _built(source: str, capability: tuple[int, int]) -> bytes:
    """The cubin of all kernels of a source."""
    first = source.split("__global__ void ")[1].split("(")[0].split()[-1]
    kernel = gpusim.cuda_cpp(source, first, options=("-arch=sm_{}{}a".format(*capability),))
    byte = np.zeros(1, np.uint8)
    args = (bytes(128), byte, 0, 0, *(0,) * 8)
    return front_end_of(kernel).compile(kernel, args, make_target(capability).capability).cubin


@cache
def bulk_kernel(source: str, name: str, capability: tuple[int, int] = (9, 0)) -> Any:
    """Kernel ``name`` of :data:`SOURCE` or :data:`ROWS_SOURCE`, for sm_90a or sm_100a."""
    return gpusim.cubin(_built(source, capability), name)
