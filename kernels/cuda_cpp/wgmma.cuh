// Products of a warp group by the number N of columns, d[64 x N] = a[64 x K] b[N x K]^T (+ d), A in shared memory (or registers) and B there.
// A register of inline PTX has to be named, so each N has its own text: LIST_r names r registers, BIND_r gives their values.
#pragma once
#include "hopper.cuh"

struct Half {};  // K = 16
struct Bfloat {};  // K = 16
struct E4m3 {};  // K = 32

#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define TWO(t) "%" #t "0, %" #t "1"
#define FOUR(t) TWO(t) ", %" #t "2, %" #t "3"
#define SIX(t) FOUR(t) ", %" #t "4, %" #t "5"
#define EIGHT(t) SIX(t) ", %" #t "6, %" #t "7"
#define ALL(t) EIGHT(t) ", %" #t "8, %" #t "9"
#define BIND4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define BIND8(i) BIND4(i), BIND4(i + 4)
#define BIND16(i) BIND8(i), BIND8(i + 8)
#define BIND32(i) BIND16(i), BIND16(i + 16)
#define BIND64(i) BIND32(i), BIND32(i + 32)

// TYPE, K and the rest of the instruction's name, N, then the places of A, B and the predicate, and what follows it.
#define PRODUCT(TYPE, K, KINDS, N, LIST, A, B, P, REST, ...)                                                                     \
    __device__ __forceinline__ void multiply(TYPE, float (&d)[N / 2], u64 a, u64 b, int accumulate)                              \
    {                                                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\n"                                                            \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k" #K "." KINDS " {" LIST "}, %" #A ", %" #B ", p, 1, 1" REST ";\n}" \
                     : __VA_ARGS__ : "l"(a), "l"(b), "r"(accumulate));                                                           \
    }
#define HALVES(N, LIST, A, B, P, ...)                                                     \
    PRODUCT(Half, 16, "f32.f16.f16", N, LIST, A, B, P, ", 0, 0", __VA_ARGS__)             \
    PRODUCT(Bfloat, 16, "f32.bf16.bf16", N, LIST, A, B, P, ", 0, 0", __VA_ARGS__)
#define EIGHTS(N, LIST, A, B, P, ...) PRODUCT(E4m3, 32, "f32.e4m3.e4m3", N, LIST, A, B, P, "", __VA_ARGS__)

HALVES(64, TEN() TEN(1) TEN(2) TWO(3), 32, 33, 34, BIND32(0))
HALVES(128, TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) FOUR(6), 64, 65, 66, BIND64(0))
HALVES(192, TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) SIX(9), 96, 97, 98, BIND64(0), BIND32(64))
HALVES(256, TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) EIGHT(12), 128, 129, 130, BIND64(0), BIND64(64))

EIGHTS(16, EIGHT(), 8, 9, 10, BIND8(0))
EIGHTS(24, TEN() TWO(1), 12, 13, 14, BIND8(0), BIND4(8))
EIGHTS(32, TEN() SIX(1), 16, 17, 18, BIND16(0))
EIGHTS(40, TEN() ALL(1), 20, 21, 22, BIND16(0), BIND4(16))
EIGHTS(48, TEN() TEN(1) FOUR(2), 24, 25, 26, BIND16(0), BIND8(16))
EIGHTS(56, TEN() TEN(1) EIGHT(2), 28, 29, 30, BIND16(0), BIND8(16), BIND4(24))
EIGHTS(64, TEN() TEN(1) TEN(2) TWO(3), 32, 33, 34, BIND32(0))
EIGHTS(72, TEN() TEN(1) TEN(2) SIX(3), 36, 37, 38, BIND32(0), BIND4(32))
EIGHTS(80, TEN() TEN(1) TEN(2) ALL(3), 40, 41, 42, BIND32(0), BIND8(32))
EIGHTS(88, TEN() TEN(1) TEN(2) TEN(3) FOUR(4), 44, 45, 46, BIND32(0), BIND8(32), BIND4(40))
EIGHTS(96, TEN() TEN(1) TEN(2) TEN(3) EIGHT(4), 48, 49, 50, BIND32(0), BIND16(32))
EIGHTS(104, TEN() TEN(1) TEN(2) TEN(3) TEN(4) TWO(5), 52, 53, 54, BIND32(0), BIND16(32), BIND4(48))
EIGHTS(112, TEN() TEN(1) TEN(2) TEN(3) TEN(4) SIX(5), 56, 57, 58, BIND32(0), BIND16(32), BIND8(48))
EIGHTS(120, TEN() TEN(1) TEN(2) TEN(3) TEN(4) ALL(5), 60, 61, 62, BIND32(0), BIND16(32), BIND8(48), BIND4(56))
EIGHTS(128, TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) FOUR(6), 64, 65, 66, BIND64(0))

// A in registers (as the sums of a product lie, packed in pairs), B with its rows along n: d[64 x 64] += a[64 x 16] b[16 x 64].
__device__ __forceinline__ void multiply_registers(float (&d)[32], const unsigned (&a)[4], u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" TEN() TEN(1) TEN(2) TWO(3) "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : BIND32(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
