"""The few machine instructions of the libraries that programs load: start Python at the first call, refuse after a
fork.

Mental model: every function of such a library jumps through a slot of a table. At first all slots lead to ``first``,
which keeps the caller's arguments, has ``start`` fill the table, and jumps again; ``start`` opens Python's library,
unless the process is a Python already, and runs a line of Python in it. After a fork ``forked`` replaces the table by
another whose functions say that the device is not initialised. What differs from process to process stands in a block
of data, so that none of this code needs relocating; LLVM, which Numba brings, assembles it, so that no compiler is
needed.

Calling conventions: System V ABI, AMD64 and AArch64 (AAPCS64) supplements.
"""

from __future__ import annotations

from llvmlite import binding as llvm  # pyright: ignore[reportMissingImports]

#: What the block of data holds, 8 bytes each: addresses of C functions, of texts, and of what lies in the library
#: itself.
IMPORTS = ("dlopen", "dlsym", "dlerror", "pthread_mutex_lock", "pthread_mutex_unlock", "write", "strlen")
TEXTS = ("library", "program_name", "code", "failure", "newline")
#: Functions of Python's C API, looked up by name; the third is missing from Python 3.15 on and not needed there.
PYTHON = (
    "Py_IsInitialized", "Py_InitializeEx", "Py_SetProgramName", "PyGILState_Ensure", "PyGILState_Release",
    "PyRun_SimpleString", "PyEval_SaveThread",
)  # fmt: skip
WORDS = (
    "state", "start", "first_address", "table", "forked_table", "table_bytes",
    *IMPORTS, *TEXTS, *(f"name_{name}" for name in PYTHON), "mutex",
)  # fmt: skip
OFFSETS = {name: 8 * i for i, name in enumerate(WORDS)}
#: A pthread_mutex_t is 40 bytes on x86-64 and 48 on AArch64; its kind, at byte 16, is PTHREAD_MUTEX_RECURSIVE.
DATA_BYTES = 8 * (len(WORDS) - 1) + 64
MUTEX_KIND_OFFSET, MUTEX_RECURSIVE = OFFSETS["mutex"] + 16, 1
#: CUDA_ERROR_NOT_INITIALIZED and cudaErrorInitializationError alike.
NOT_INITIALIZED = 3
_RTLD_NOW_GLOBAL = 0x102

# On entry: the slot's address in r11, that of the data in r10.
_X86_64 = f"""
.section .text.first,"ax"
  pushq %rbp
  movq %rsp, %rbp
  andq $-16, %rsp
  subq $224, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movq %rax, 48(%rsp)
  movq %r10, 56(%rsp)
  movq %r11, 64(%rsp)
  movups %xmm0, 80(%rsp)
  movups %xmm1, 96(%rsp)
  movups %xmm2, 112(%rsp)
  movups %xmm3, 128(%rsp)
  movups %xmm4, 144(%rsp)
  movups %xmm5, 160(%rsp)
  movups %xmm6, 176(%rsp)
  movups %xmm7, 192(%rsp)
  movq %r10, %rdi
  callq *{OFFSETS["start"]}(%r10)
  movq 0(%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movq 48(%rsp), %rax
  movq 56(%rsp), %r10
  movq 64(%rsp), %r11
  movups 80(%rsp), %xmm0
  movups 96(%rsp), %xmm1
  movups 112(%rsp), %xmm2
  movups 128(%rsp), %xmm3
  movups 144(%rsp), %xmm4
  movups 160(%rsp), %xmm5
  movups 176(%rsp), %xmm6
  movups 192(%rsp), %xmm7
  leave
  movq (%r11), %r11
  cmpq {OFFSETS["first_address"]}(%r10), %r11
  je 1f
  jmpq *%r11
1: movl ${NOT_INITIALIZED}, %eax
  retq
.section .text.forked,"ax"
  movq {OFFSETS["table"]}(%r10), %rdi
  movq {OFFSETS["forked_table"]}(%r10), %rsi
  movq {OFFSETS["table_bytes"]}(%r10), %rcx
  rep movsb
  retq
.section .text.not_initialized,"ax"
  movl ${NOT_INITIALIZED}, %eax
  retq
.section .text.closed,"ax"
  xorl %eax, %eax
  retq
"""

# On entry: the slot's address in x16, that of the data in x17.
_AARCH64 = f"""
.section .text.first,"ax"
  stp x29, x30, [sp, #-240]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  stp x8, x16, [sp, #80]
  str x17, [sp, #96]
  stp q0, q1, [sp, #112]
  stp q2, q3, [sp, #144]
  stp q4, q5, [sp, #176]
  stp q6, q7, [sp, #208]
  mov x0, x17
  ldr x9, [x17, #{OFFSETS["start"]}]
  blr x9
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldp x8, x16, [sp, #80]
  ldr x17, [sp, #96]
  ldp q0, q1, [sp, #112]
  ldp q2, q3, [sp, #144]
  ldp q4, q5, [sp, #176]
  ldp q6, q7, [sp, #208]
  ldp x29, x30, [sp], #240
  ldr x16, [x16]
  ldr x17, [x17, #{OFFSETS["first_address"]}]
  cmp x16, x17
  b.eq 1f
  br x16
1: mov w0, #{NOT_INITIALIZED}
  ret
.section .text.forked,"ax"
  ldr x0, [x17, #{OFFSETS["table"]}]
  ldr x1, [x17, #{OFFSETS["forked_table"]}]
  ldr x2, [x17, #{OFFSETS["table_bytes"]}]
2: subs x2, x2, #8
  b.lt 3f
  ldr x3, [x1, x2]
  str x3, [x0, x2]
  b 2b
3: ret
.section .text.not_initialized,"ax"
  mov w0, #{NOT_INITIALIZED}
  ret
.section .text.closed,"ax"
  mov w0, #0
  ret
"""


def _word(name: str, register: str) -> str:
    return f"  %{register}_at = getelementptr i8, ptr %data, i64 {OFFSETS[name]}\n  %{register} = load ptr, ptr %{register}_at\n"


def _look_up(name: str, register: str) -> str:
    return _word(f"name_{name}", f"n_{register}") + f"  %{register} = call ptr %dlsym(ptr %scope, ptr %n_{register})\n"


_START = f"""
define void @start(ptr %data) nounwind section ".text.start" {{
entry:
{"".join(_word(name, name) for name in (*IMPORTS, *TEXTS))}
  %mutex = getelementptr i8, ptr %data, i64 {OFFSETS["mutex"]}
  %locked = call i32 %pthread_mutex_lock(ptr %mutex)
  %state_at = getelementptr i8, ptr %data, i64 {OFFSETS["state"]}
  %state = load i64, ptr %state_at
  %fresh = icmp eq i64 %state, 0
  br i1 %fresh, label %begin, label %done
begin:
  store i64 1, ptr %state_at
{_word("name_Py_IsInitialized", "probe")}
  %is_there = call ptr %dlsym(ptr null, ptr %probe)
  %absent = icmp eq ptr %is_there, null
  br i1 %absent, label %open, label %ask
ask:
  %running = call i32 %is_there()
  %asleep = icmp eq i32 %running, 0
  br i1 %asleep, label %open, label %join
join:
  br label %look
open:
  %handle = call ptr %dlopen(ptr %library, i32 {_RTLD_NOW_GLOBAL})
  %closed = icmp eq ptr %handle, null
  br i1 %closed, label %fail, label %initialise
fail:
  %reason = call ptr %dlerror()
  %length_1 = call i64 %strlen(ptr %failure)
  %written_1 = call i64 %write(i32 2, ptr %failure, i64 %length_1)
  %length_2 = call i64 %strlen(ptr %reason)
  %written_2 = call i64 %write(i32 2, ptr %reason, i64 %length_2)
  %written_3 = call i64 %write(i32 2, ptr %newline, i64 1)
  br label %done
initialise:
  br label %look
look:
  %scope = phi ptr [ null, %join ], [ %handle, %initialise ]
  %ours = phi i1 [ 0, %join ], [ 1, %initialise ]
{"".join(_look_up(name, name) for name in PYTHON[1:])}
  br i1 %ours, label %wake, label %run
wake:
  %unnamed = icmp eq ptr %Py_SetProgramName, null
  br i1 %unnamed, label %boot, label %name
name:
  call void %Py_SetProgramName(ptr %program_name)
  br label %boot
boot:
  call void %Py_InitializeEx(i32 0)
  br label %run
run:
  %gil = call i32 %PyGILState_Ensure()
  %ran = call i32 %PyRun_SimpleString(ptr %code)
  call void %PyGILState_Release(i32 %gil)
  br i1 %ours, label %release, label %done
release:
  %saved = call ptr %PyEval_SaveThread()
  br label %done
done:
  %unlocked = call i32 %pthread_mutex_unlock(ptr %mutex)
  ret void
}}
"""
_ASSEMBLY = {"x86_64": _X86_64, "aarch64": _AARCH64}


def native_code(machine: str) -> dict[str, bytes]:
    """Machine code by name: ``first``, ``start``, ``forked``, ``not_initialized`` (returns NOT_INITIALIZED), ``closed``
    (returns 0), for ``machine`` (x86_64 or aarch64). None of it refers to another place but through the data."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    triple = f"{machine}-unknown-linux-gnu"
    assembly = "\n".join(f'module asm "{line}"' for line in _quoted(_ASSEMBLY[machine]))
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{assembly}\n{_START}')
    target = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic", codemodel="small")
    found = {}
    for section in llvm.ObjectFileRef.from_data(target.emit_object(module)).sections():
        name = bytes(section.name() or b"").decode()
        if name.startswith(".text."):
            found[name.removeprefix(".text.")] = bytes(section.data())
        elif name.startswith(".rela.text"):
            raise AssertionError(f"the code of {name} refers to another place")
    return found


def _quoted(text: str) -> list[str]:
    return [line.replace("\\", "\\5C").replace('"', "\\22") for line in text.splitlines()]
