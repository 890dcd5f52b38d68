// Attention without a mask in bfloat16 by m16n8k16, heads of WIDE columns, after the description of a ladder of five rungs: a block has ROWS queries, whose
// fragments stay in registers, and goes over the keys by KEYS, with a softmax that is mended as they come. The rungs differ in EXCHANGED (16-byte pieces of a
// row change places, so that ldmatrix meets no bank twice), LOADS (0: keys and values are waited for where they are needed; 1: both a step ahead, in two
// buffers each; 2: keys a step ahead in two buffers, values from the step's beginning in one) and FOUR (two fragments of keys and values by one ldmatrix).
// `keys` is how many there are, `depth` how many are gone over: the same, unless a launch is cut short.
#include <cuda_bf16.h>

namespace {
constexpr int WARPS = 4, LANES = 32, THREADS = WARPS * LANES, WIDE = 128;
constexpr int ROW_BYTES = WIDE * 2, PIECE = 16;
using bf16 = __nv_bfloat16;

template <bool EXCHANGED>
__device__ __forceinline__ unsigned place(unsigned bytes)
{
    return EXCHANGED ? bytes ^ (bytes / ROW_BYTES % 8 * PIECE) : bytes;
}

template <int HEIGHT, bool EXCHANGED>
__device__ __forceinline__ void copy(unsigned to, const bf16 *from)
{
    constexpr int EACH = PIECE / 2;
#pragma unroll
    for (int turn = 0; turn < HEIGHT * WIDE / (THREADS * EACH); ++turn) {
        const int i = (turn * THREADS + threadIdx.x) * EACH;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place<EXCHANGED>(to + i * 2)), "l"(from + i));
    }
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;"); }

template <int LEFT>
__device__ __forceinline__ void wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
    __syncthreads();
}

__device__ __forceinline__ void fragments(unsigned *to, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
}
__device__ __forceinline__ void two_fragments(unsigned *to, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
}
__device__ __forceinline__ void fragments_turned(unsigned *to, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
}
__device__ __forceinline__ void two_fragments_turned(unsigned *to, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
}

__device__ __forceinline__ void multiply(const unsigned *a, const unsigned *b, float *sum)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Over the four lanes that share a row.
__device__ __forceinline__ float largest_of_row(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ __forceinline__ float sum_of_row(float x)
{
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}
} // namespace

template <int ROWS, int KEYS, bool EXCHANGED, int LOADS, bool FOUR>
__global__ void __launch_bounds__(THREADS) attention(const bf16 *q, const bf16 *k, const bf16 *v, bf16 *o, int queries, int keys, int depth)
{
    constexpr int HIGH = ROWS / WARPS / 16, DEEP = WIDE / 16, RIGHT = WIDE / 8, ACROSS = KEYS / 8, DOWN = KEYS / 16, TILE_BYTES = KEYS * ROW_BYTES;
    extern __shared__ __align__(128) unsigned char shared[];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, blocks = (queries + ROWS - 1) / ROWS;
    const int head = blockIdx.x / blocks, first = (head * blocks + blockIdx.x % blocks) * ROWS;
    q += first * WIDE;
    o += first * WIDE;
    k += head * keys * WIDE;
    v += head * keys * WIDE;

    // Keys come first, then values; of the rungs that load ahead, by LOADS, two of each or two of the keys.
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared)), of_k = base, of_v = base + (LOADS == 2 ? 2 : 1) * TILE_BYTES;
    constexpr unsigned OTHER = LOADS == 1 ? 2 * TILE_BYTES : LOADS == 2 ? TILE_BYTES : 0, OTHER_V = LOADS == 1 ? 2 * TILE_BYTES : 0;
    const unsigned at_q = place<EXCHANGED>(base + (warp * (ROWS / WARPS) + lane % 16) * ROW_BYTES + lane / 16 * PIECE);
    const unsigned at_k = place<EXCHANGED>(of_k + lane % 8 * ROW_BYTES + lane / 8 * PIECE);
    const unsigned at_v = place<EXCHANGED>(of_v + lane % 16 * ROW_BYTES + lane / 16 * PIECE);
    // A column's offset is below a row's bytes: where pieces are exchanged it is exchanged with them.
    auto beside = [](unsigned at, unsigned bytes) { return EXCHANGED ? at ^ bytes : at + bytes; };

    unsigned of_q[HIGH][DEEP][4], of_p[HIGH][DOWN][4], fragment_k[ACROSS][DEEP][2], fragment_v[DOWN][RIGHT][2];
    float out[HIGH][RIGHT][4] = {}, most[HIGH][2], total[HIGH][2] = {};
    const float scale = rsqrtf(static_cast<float>(WIDE));
#pragma unroll
    for (int h = 0; h < HIGH; ++h) most[h][0] = most[h][1] = -3.402823466e38f;

    copy<ROWS, EXCHANGED>(base, q);
    commit();
    wait<0>();
#pragma unroll
    for (int h = 0; h < HIGH; ++h)
#pragma unroll
        for (int d = 0; d < DEEP; ++d) fragments(of_q[h][d], beside(at_q + h * 16 * ROW_BYTES, d * 2 * PIECE));
    __syncthreads();

    const int steps = depth / KEYS;
    auto load_keys = [&](int step) {
        if (LOADS == 0 || step < steps) {
            copy<KEYS, EXCHANGED>(of_k + step % 2 * OTHER, k);
            k += KEYS * WIDE;
        }
        commit();
    };
    auto load_values = [&](int step) {
        if (LOADS != 1 || step < steps) {
            copy<KEYS, EXCHANGED>(of_v + step % 2 * OTHER_V, v);
            v += KEYS * WIDE;
        }
        commit();
    };
    if (LOADS) load_keys(0);
    if (LOADS == 1) load_values(0);

    for (int step = 0; step < steps; ++step) {
        float s[HIGH][ACROSS][4] = {};
        if (LOADS == 0) {
            load_keys(step);
            wait<0>();
        } else if (LOADS == 1) {
            load_keys(step + 1);
            wait<2>();
        } else {
            __syncthreads(); // all have read the values of the step before
            load_values(step);
            wait<1>();
        }
#pragma unroll
        for (int a = 0; a < ACROSS; ++a)
#pragma unroll
            for (int d = 0; d < DEEP; d += FOUR ? 2 : 1) {
                const unsigned at = beside(at_k + step % 2 * OTHER + a * 8 * ROW_BYTES, d * 2 * PIECE);
                if (FOUR) fragments(fragment_k[a][d], at);
                else two_fragments(fragment_k[a][d], at);
            }
#pragma unroll
        for (int h = 0; h < HIGH; ++h)
#pragma unroll
            for (int a = 0; a < ACROSS; ++a)
#pragma unroll
                for (int d = 0; d < DEEP; ++d) multiply(of_q[h][d], fragment_k[a][d], s[h][a]);
        if (LOADS == 1) load_values(step + 1);
        if (LOADS == 2) load_keys(step + 1);

#pragma unroll
        for (int h = 0; h < HIGH; ++h) {
            float largest[2] = {-3.402823466e38f, -3.402823466e38f}, sum[2] = {}, shrink[2];
#pragma unroll
            for (int a = 0; a < ACROSS; ++a)
#pragma unroll
                for (int r = 0; r < 4; ++r) s[h][a][r] *= scale;
#pragma unroll
            for (int a = 0; a < ACROSS; ++a) {
                largest[0] = fmaxf(largest[0], fmaxf(s[h][a][0], s[h][a][1]));
                largest[1] = fmaxf(largest[1], fmaxf(s[h][a][2], s[h][a][3]));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                largest[i] = fmaxf(largest_of_row(largest[i]), most[h][i]);
                shrink[i] = __expf(most[h][i] - largest[i]);
                most[h][i] = largest[i];
            }
#pragma unroll
            for (int d = 0; d < RIGHT; ++d)
#pragma unroll
                for (int r = 0; r < 4; ++r) out[h][d][r] *= shrink[r / 2];
#pragma unroll
            for (int a = 0; a < ACROSS; ++a) {
#pragma unroll
                for (int r = 0; r < 4; ++r) s[h][a][r] = __expf(s[h][a][r] - most[h][r / 2]);
                sum[0] += s[h][a][0] + s[h][a][1];
                sum[1] += s[h][a][2] + s[h][a][3];
                __nv_bfloat162 *to = reinterpret_cast<__nv_bfloat162 *>(of_p[h][a / 2]) + a % 2 * 2;
                to[0] = __float22bfloat162_rn({s[h][a][0], s[h][a][1]});
                to[1] = __float22bfloat162_rn({s[h][a][2], s[h][a][3]});
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) total[h][i] = total[h][i] * shrink[i] + sum_of_row(sum[i]);
        }

        if (LOADS == 0) {
            load_values(step);
            wait<0>();
        } else {
            wait<LOADS == 1 ? 2 : 1>();
        }
#pragma unroll
        for (int a = 0; a < DOWN; ++a)
#pragma unroll
            for (int d = 0; d < RIGHT; d += FOUR ? 2 : 1) {
                const unsigned at = beside(at_v + step % 2 * OTHER_V + a * 16 * ROW_BYTES, d * PIECE);
                if (FOUR) fragments_turned(fragment_v[a][d], at);
                else two_fragments_turned(fragment_v[a][d], at);
            }
#pragma unroll
        for (int h = 0; h < HIGH; ++h)
#pragma unroll
            for (int d = 0; d < RIGHT; ++d)
#pragma unroll
                for (int a = 0; a < DOWN; ++a) multiply(of_p[h][a], fragment_v[a][d], out[h][d]);
    }

#pragma unroll
    for (int h = 0; h < HIGH; ++h)
#pragma unroll
        for (int d = 0; d < RIGHT; ++d) {
            bf16 *to = o + (warp * (ROWS / WARPS) + h * 16 + lane / 4) * WIDE + d * 8 + lane % 4 * 2;
            const float *x = out[h][d];
            *reinterpret_cast<__nv_bfloat162 *>(to) = __float22bfloat162_rn({x[0] / total[h][0], x[1] / total[h][0]});
            *reinterpret_cast<__nv_bfloat162 *>(to + 8 * WIDE) = __float22bfloat162_rn({x[2] / total[h][1], x[3] / total[h][1]});
        }
}
