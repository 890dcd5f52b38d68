"""Two small kernels of which one depends on the other, and how they are launched so that it may begin early."""

from __future__ import annotations

import ctypes

from driver_api import Api

SERIALIZATION = 6
#: ``first`` writes 128 words and lets its dependents begin before; ``second`` adds 1 to them into another array; a test
#: takes lines away.
KERNELS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry first(.param .u64 out) {
  .reg .b64 %p, %s; .reg .b32 %t;
  ld.param.u64 %p, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %s, %t, 4; add.u64 %p, %p, %s;
  griddepcontrol.launch_dependents; //trigger
  st.global.u32 [%p], %t;
  ret;
}
.visible .entry second(.param .u64 in, .param .u64 out, .param .u64 own) {
  .reg .b64 %i, %o, %s, %w; .reg .b32 %t, %v, %u; .reg .pred %first;
  .shared .align 16 .b8 tile[512]; .shared .align 8 .b64 bar;
  ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; ld.param.u64 %w, [own]; mov.u32 %t, %tid.x; mul.wide.u32 %s, %t, 4;
  add.u64 %i, %i, %s; add.u64 %o, %o, %s; add.u64 %w, %w, %s; setp.lt.u32 %first, %t, 32;
  ld.global.u32 %u, [%w];
  griddepcontrol.wait; //wait
  //each
  ld.global.u32 %v, [%i]; add.u32 %v, %v, %u; st.global.u32 [%o], %v;
  ret;
}
"""


def launch(api: Api, kernel: int, values: int, programmatic: int, stream: int = 0) -> None:
    attributes = (ctypes.c_uint64 * 9)(SERIALIZATION, programmatic)
    raw = (ctypes.c_uint64 * 7)(1 | 1 << 32, 1 | 128 << 32, 1 | 1 << 32, 0, stream, ctypes.addressof(attributes), 1)
    api.cuLaunchKernelEx(ctypes.addressof(raw), kernel, values, 0)


def without(line: str) -> str:
    return "\n".join(each for each in KERNELS.splitlines() if f"//{line}" not in each)
