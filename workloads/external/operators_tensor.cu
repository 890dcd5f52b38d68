// Products on tensor cores and attention of one token, written after operators of a language model (github.com/LiuYiyang-Canton/cuda_llm_ops): pieces of
// 16 x 16 x 16 by WMMA, plain loads of 16 bytes into shared memory, rows padded by eight. `depth`: how much of the common dimension (of the keys) is taken.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
using Bf16 = __nv_bfloat16;

namespace {
constexpr int WARP = 32, PIECE = 16, PAD = 8, EIGHT = 8, FOUR = 4;
constexpr unsigned ALL = 0xffffffffu;
template <typename T> using OfA = wmma::fragment<wmma::matrix_a, PIECE, PIECE, PIECE, T, wmma::row_major>;
template <typename T> using OfB = wmma::fragment<wmma::matrix_b, PIECE, PIECE, PIECE, T, wmma::col_major>;
using Sums = wmma::fragment<wmma::accumulator, PIECE, PIECE, PIECE, float>;

// ROWS rows of COLUMNS elements by WARPS warps, each its share of the rows.
template <int ROWS, int COLUMNS, int WARPS, typename T>
__device__ __forceinline__ void fetched(T *to, const T *from, int pitch)
{
    constexpr int ACROSS = COLUMNS / EIGHT, OF_WARP = ROWS / WARPS, AT_ONCE = WARP / ACROSS, STRIDE = COLUMNS + PAD;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < (OF_WARP + AT_ONCE - 1) / AT_ONCE; ++i) {
        const int inside = lane / ACROSS + i * AT_ONCE, row = warp * OF_WARP + inside, column = lane % ACROSS * EIGHT;
        if (inside < OF_WARP) *reinterpret_cast<int4 *>(&to[row * STRIDE + column]) = *reinterpret_cast<const int4 *>(&from[row * pitch + column]);
    }
}
} // namespace

// C = A B, B by columns: tiles of 128 x 128, 64 deep, four warps; the next pieces are loaded while some are multiplied.
__global__ void product(const half *__restrict__ a, const half *__restrict__ b, float *__restrict__ c, int m, int n, int k, int depth)
{
    constexpr int SIDE = 128, DEEP = 64, WARPS = 4, OWN = 64, PIECES = OWN / PIECE, STRIDE = DEEP + PAD;
    extern __shared__ half room[][STRIDE];
    half *as = &room[0][0], *bs = &room[SIDE][0];
    const int warp = threadIdx.x / WARP, row = blockIdx.x * SIDE, column = blockIdx.y * SIDE, down = warp / 2 * OWN, right = warp % 2 * OWN;
    Sums sums[PIECES][PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; ++i)
#pragma unroll
        for (int j = 0; j < PIECES; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
#pragma unroll
    for (int at = 0; at < depth; at += DEEP) {
        fetched<SIDE, DEEP, WARPS>(as, a + row * k + at, k);
        fetched<SIDE, DEEP, WARPS>(bs, b + column * k + at, k);
        __syncthreads();
        OfA<half> of_a[2][PIECES];
        OfB<half> of_b[2][PIECES];
        int stage = 0;
        auto load = [&](int piece) {
#pragma unroll
            for (int i = 0; i < PIECES; ++i) wmma::load_matrix_sync(of_a[stage][i], &as[(down + i * PIECE) * STRIDE + piece * PIECE], STRIDE);
#pragma unroll
            for (int j = 0; j < PIECES; ++j) wmma::load_matrix_sync(of_b[stage][j], &bs[(right + j * PIECE) * STRIDE + piece * PIECE], STRIDE);
        };
        load(0);
        __syncthreads();
#pragma unroll
        for (int piece = 0; piece < DEEP / PIECE; ++piece) {
            stage = 1 - stage;
            if (piece + 1 < DEEP / PIECE) load(piece + 1);
#pragma unroll
            for (int i = 0; i < PIECES; ++i)
#pragma unroll
                for (int j = 0; j < PIECES; ++j) wmma::mma_sync(sums[i][j], of_a[1 - stage][i], of_b[1 - stage][j], sums[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < PIECES; ++i)
#pragma unroll
        for (int j = 0; j < PIECES; ++j)
            wmma::store_matrix_sync(&c[(row + down + i * PIECE) * n + column + right + j * PIECE], sums[i][j], n, wmma::mem_row_major);
}

// Two products with halves of one matrix of weights, the second of which gates the first: tiles of 128 x 64, 128 deep, 16 warps of 16 x 32.
__global__ void gated_product(const Bf16 *__restrict__ x, const Bf16 *__restrict__ weight, float *__restrict__ out, int k, int n, int depth)
{
    constexpr int HIGH = 128, WIDE = 64, DEEP = 128, WARPS = 16, PIECES = 2, STRIDE = DEEP + PAD, C_STRIDE = 2 * WIDE + PAD;
    extern __shared__ Bf16 rows[][STRIDE];
    Bf16 *xs = &rows[0][0], *first = &rows[HIGH][0], *second = &rows[HIGH + WIDE][0];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.x * HIGH, column = blockIdx.y * WIDE;
    const int down = warp / 2 * PIECE, right = warp % 2 * PIECES * PIECE;
    Sums sums[2][PIECES];
#pragma unroll
    for (int j = 0; j < PIECES; ++j) {
        wmma::fill_fragment(sums[0][j], 0.0f);
        wmma::fill_fragment(sums[1][j], 0.0f);
    }
#pragma unroll
    for (int at = 0; at < depth; at += DEEP) {
        fetched<HIGH, DEEP, WARPS>(xs, x + row * k + at, k);
        fetched<WIDE, DEEP, WARPS>(first, weight + column * k + at, k);
        fetched<WIDE, DEEP, WARPS>(second, weight + (column + n) * k + at, k);
        __syncthreads();
#pragma unroll
        for (int piece = 0; piece < DEEP / PIECE; ++piece) {
            OfA<Bf16> of_x;
            OfB<Bf16> of_weights[2][PIECES];
            wmma::load_matrix_sync(of_x, &xs[down * STRIDE + piece * PIECE], STRIDE);
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                wmma::load_matrix_sync(of_weights[0][j], &first[(right + j * PIECE) * STRIDE + piece * PIECE], STRIDE);
                wmma::load_matrix_sync(of_weights[1][j], &second[(right + j * PIECE) * STRIDE + piece * PIECE], STRIDE);
            }
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                wmma::mma_sync(sums[0][j], of_x, of_weights[0][j], sums[0][j]);
                wmma::mma_sync(sums[1][j], of_x, of_weights[1][j], sums[1][j]);
            }
        }
        __syncthreads();
    }
    float *made = reinterpret_cast<float *>(&rows[0][0]);
#pragma unroll
    for (int j = 0; j < PIECES; ++j) {
        wmma::store_matrix_sync(&made[down * C_STRIDE + right + j * PIECE], sums[0][j], C_STRIDE, wmma::mem_row_major);
        wmma::store_matrix_sync(&made[down * C_STRIDE + right + j * PIECE + WIDE], sums[1][j], C_STRIDE, wmma::mem_row_major);
    }
    __syncthreads();
    constexpr int ACROSS = WIDE / FOUR, OF_WARP = HIGH / WARPS, AT_ONCE = WARP / ACROSS;
    for (int i = 0; i < OF_WARP / AT_ONCE; ++i) {
        const int y = warp * OF_WARP + lane / ACROSS + i * AT_ONCE, z = lane % ACROSS * FOUR;
        const float4 v = *reinterpret_cast<float4 *>(&made[y * C_STRIDE + z]), g = *reinterpret_cast<float4 *>(&made[y * C_STRIDE + z + WIDE]);
        const float4 gated = {v.x * (1.0f / (1.0f + expf(-g.x))), v.y * (1.0f / (1.0f + expf(-g.y))), v.z * (1.0f / (1.0f + expf(-g.z))), v.w * (1.0f / (1.0f + expf(-g.w)))};
        *reinterpret_cast<float4 *>(&out[(row + y) * n + column + z]) = gated;
    }
}

// One token's attention, 16 heads that share keys a block, 128 keys at a time by eight warps; what is added up lies in global memory.
__global__ void decode(const Bf16 *__restrict__ q, const Bf16 *__restrict__ keys, const Bf16 *__restrict__ values, float scale, Bf16 *__restrict__ out,
                       float *__restrict__ partial, int batch, int length, int heads, int groups, int width, int depth)
{
    constexpr int HEADS = 16, AT_ONCE = 128, WIDTH = 128, WARPS = 8, DEEP = 32, STRIDE = DEEP + PAD, WIDE_STRIDE = AT_ONCE + PAD, ROWS = HEADS / WARPS;
    const int t = threadIdx.x, warp = t / WARP, lane = t % WARP, which = blockIdx.y, group = blockIdx.x, of_group = heads / groups;
    if (which >= batch) return;
    q += (which * heads + group * of_group) * width;
    keys += ((size_t)which * length * groups + group) * width;
    values += ((size_t)which * length * groups + group) * width;
    out += (which * heads + group * of_group) * width;
    partial += (which * heads + group * of_group) * width;
    extern __shared__ __align__(16) unsigned char bytes[];
    float *most = reinterpret_cast<float *>(bytes), *new_most = most + of_group, *sum = new_most + of_group, *new_sum = sum + of_group;
    Bf16 *room = reinterpret_cast<Bf16 *>(new_sum + of_group);
    if (t == 0)
        for (int head = 0; head < of_group; ++head) most[head] = __int_as_float(0xff800000), sum[head] = 0.0f;
    Bf16 *qs = room, *ks = room + HEADS * STRIDE;
    const int pitch = groups * width;
    for (int turn = 0; turn < depth / AT_ONCE; ++turn) {
        Sums scores;
        wmma::fill_fragment(scores, 0.0f);
#pragma unroll
        for (int at = 0; at < WIDTH; at += DEEP) {
            fetched<HEADS, DEEP, WARPS>(qs, q + at, width);
            fetched<AT_ONCE, DEEP, WARPS>(ks, keys + at, pitch);
            __syncthreads();
#pragma unroll
            for (int piece = 0; piece < DEEP / PIECE; ++piece) {
                OfA<Bf16> of_q;
                OfB<Bf16> of_keys;
                wmma::load_matrix_sync(of_q, &qs[piece * PIECE], STRIDE);
                wmma::load_matrix_sync(of_keys, &ks[warp * PIECE * STRIDE + piece * PIECE], STRIDE);
                wmma::mma_sync(scores, of_q, of_keys, scores);
            }
            __syncthreads();
        }
        float *made = reinterpret_cast<float *>(room + HEADS * WIDE_STRIDE);
        wmma::store_matrix_sync(&made[warp * PIECE], scores, AT_ONCE, wmma::mem_row_major);
        __syncthreads();
        Bf16 *ps = room;
        for (int i = 0; i < ROWS; ++i) {
            const int row = warp * ROWS + i;
            const float4 s = *reinterpret_cast<float4 *>(&made[row * AT_ONCE + lane * FOUR]);
            float top = most[row];
            top = fmaxf(s.x * scale, top), top = fmaxf(s.y * scale, top), top = fmaxf(s.z * scale, top), top = fmaxf(s.w * scale, top);
#pragma unroll
            for (int apart = WARP / 2; apart > 0; apart >>= 1) top = fmaxf(top, __shfl_xor_sync(ALL, top, apart));
            new_most[row] = top;
            __syncwarp();
            float local = expf(s.x * scale - new_most[row]) + expf(s.y * scale - new_most[row]) + expf(s.z * scale - new_most[row]) + expf(s.w * scale - new_most[row]);
#pragma unroll
            for (int apart = WARP / 2; apart > 0; apart >>= 1) local += __shfl_xor_sync(ALL, local, apart);
            new_sum[row] = local;
            Bf16 *to = &ps[row * WIDE_STRIDE + lane * FOUR];
            to[0] = __float2bfloat16(expf(s.x * scale - new_most[row]));
            to[1] = __float2bfloat16(expf(s.y * scale - new_most[row]));
            to[2] = __float2bfloat16(expf(s.z * scale - new_most[row]));
            to[3] = __float2bfloat16(expf(s.w * scale - new_most[row]));
        }
        __syncthreads();
        Sums weighted;
        wmma::fill_fragment(weighted, 0.0f);
        Bf16 *vs = room + HEADS * WIDE_STRIDE;
        fetched<AT_ONCE, WIDTH, WARPS>(vs, values, pitch);
        __syncthreads();
#pragma unroll
        for (int piece = 0; piece < AT_ONCE / PIECE; ++piece) {
            OfA<Bf16> of_p;
            wmma::fragment<wmma::matrix_b, PIECE, PIECE, PIECE, Bf16, wmma::row_major> of_values;
            wmma::load_matrix_sync(of_p, &ps[piece * PIECE], WIDE_STRIDE);
            wmma::load_matrix_sync(of_values, &vs[piece * PIECE * WIDE_STRIDE + warp * PIECE], WIDE_STRIDE);
            wmma::mma_sync(weighted, of_p, of_values, weighted);
        }
        __syncthreads();
        float *added = reinterpret_cast<float *>(room);
        wmma::store_matrix_sync(&added[warp * PIECE], weighted, WIDTH, wmma::mem_row_major);
        __syncthreads();
        for (int i = 0; i < ROWS; ++i) {
            const int row = warp * ROWS + i, column = lane * FOUR;
            const float by = expf(most[row] - new_most[row]);
            const float4 fresh = *reinterpret_cast<float4 *>(&added[row * WIDTH + column]);
            float4 *at = reinterpret_cast<float4 *>(&partial[row * width + column]);
            if (turn > 0) {
                const float4 old = *at;
                *at = make_float4(old.x * by + fresh.x, old.y * by + fresh.y, old.z * by + fresh.z, old.w * by + fresh.w);
            } else
                *at = fresh;
        }
        __syncthreads();
        if (t < of_group) {
            sum[t] = sum[t] * expf(most[t] - new_most[t]) + new_sum[t];
            most[t] = new_most[t];
        }
        keys += AT_ONCE * pitch;
        values += AT_ONCE * pitch;
    }
    __syncthreads();
    for (int i = 0; i < ROWS; ++i) {
        const int row = warp * ROWS + i;
        const float by = 1.0f / sum[row];
        const float4 v = *reinterpret_cast<float4 *>(&partial[row * WIDTH + lane * FOUR]);
        Bf16 *to = &out[row * width + lane * FOUR];
        to[0] = __float2bfloat16(v.x * by), to[1] = __float2bfloat16(v.y * by), to[2] = __float2bfloat16(v.z * by), to[3] = __float2bfloat16(v.w * by);
    }
}
