// Attention forward, one head and 128 queries a block: half in, half out, DEPTH halves a head, softmax in single precision.
// A producer thread fetches Q once and K and V in tiles of 128 keys through STAGES buffers each. Two warp groups have 64 queries each. While a
// group's softmax of one tile runs, the products of Q and the next K and of these weights and V are under way, and the groups take turns to start
// their products (named barriers): one multiplies while the other one has its exponentials. Either may be left out (STEP).
#include <cuda_fp16.h>
#include "wgmma.cuh"

constexpr int ROW_BYTES = 128, GROUP = 128, ROWS = 64, BM = 2 * ROWS, BN = 128, PANEL = BM * ROW_BYTES;

// Neither; turns of the two groups; a group's products beside its own softmax; both.
enum Step { SERIAL, TURNS, OVERLAPPED, BOTH };

// One instruction: what is too small to be normal comes out as zero.
__device__ __forceinline__ float power_of_two(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Keys that follow the query weigh nothing.
__device__ __forceinline__ void mask_later(float (&s)[BN / 2], int row, int column)
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < BN / 2; ++i)
        if (column + i / 4 * 8 + lane % 4 * 2 + i % 2 > row + i / 2 % 2 * 8) s[i] = -INFINITY;
}

// s: scores in, weights out; what the sums so far shrink by, for the thread's two rows. `scale` has log2(e) in it.
__device__ __forceinline__ void soften(float (&s)[BN / 2], float (&most)[2], float (&total)[2], float (&shrink)[2], float scale)
{
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        float high = most[half];
        #pragma unroll
        for (int i = 0; i < BN / 8; ++i) high = fmaxf(high, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
        shrink[half] = power_of_two((most[half] - high) * scale);
        most[half] = high;
        float sum = 0;
        #pragma unroll
        for (int i = 0; i < BN / 8; ++i)
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                float &weight = s[4 * i + 2 * half + j];
                weight = power_of_two(weight * scale - high * scale);
                sum += weight;
            }
        total[half] = total[half] * shrink[half] + sum;
    }
}

// Sums of a product as the operand A of the next one.
__device__ __forceinline__ void pack(unsigned (&a)[BN / 16][4], const float (&s)[BN / 2])
{
    #pragma unroll
    for (int i = 0; i < BN / 4; ++i) {
        const __half2 pair = __floats2half2_rn(s[2 * i], s[2 * i + 1]);
        a[i / 4][i % 4] = *reinterpret_cast<const unsigned *>(&pair);
    }
}

template <int DEPTH>
__device__ __forceinline__ void multiply_scores(float (&s)[BN / 2], unsigned q, unsigned k)
{
    #pragma unroll
    for (int i = 0; i < DEPTH / 16; ++i) {
        const int panel = i / 4 * PANEL;
        multiply(Half(), s, described(q + panel) + i % 4 * 2, described(k + panel) + i % 4 * 2, i > 0);
    }
    product_commit();
}

template <int DEPTH>
__device__ __forceinline__ void multiply_values(float (&o)[DEPTH / 64][32], const unsigned (&weights)[BN / 16][4], unsigned v)
{
    #pragma unroll
    for (int i = 0; i < BN / 16; ++i)
        #pragma unroll
        for (int panel = 0; panel < DEPTH / 64; ++panel)
            multiply_registers(o[panel], weights[i], (described(v + panel * PANEL + i * 16 * ROW_BYTES) & ~(0x3FFFull << 16)) | (u64)64 << 16);
    product_commit();
}

template <int DEPTH, int STAGES, bool CAUSAL, int STEP>
__global__ void __launch_bounds__(3 * GROUP, 1)
wgmma_attention(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k, const __grid_constant__ TensorMap map_v,
                const __grid_constant__ TensorMap map_o, int queries, int keys, float scale)
{
    constexpr int PANELS = DEPTH / 64, TILE = PANELS * PANEL;
    constexpr bool IN_TURNS = STEP == TURNS || STEP == BOTH, BESIDE = STEP == OVERLAPPED || STEP == BOTH;
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ u64 bars[4 * STAGES + 1];
    const unsigned q = shared_address(room), k = q + TILE, v = k + STAGES * TILE;
    const unsigned q_full = shared_address(bars), k_full = q_full + 8, k_empty = k_full + 8 * STAGES, v_full = k_empty + 8 * STAGES, v_empty = v_full + 8 * STAGES;
    const int group = threadIdx.x / GROUP, first = blockIdx.x * BM, head = blockIdx.y;
    const int tiles = CAUSAL ? min(keys, first + BM) / BN : keys / BN;
    if (threadIdx.x == 0) {
        mbarrier_init(q_full, 1);
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(k_full + 8 * i, 1), mbarrier_init(v_full + 8 * i, 1);
            mbarrier_init(k_empty + 8 * i, 2), mbarrier_init(v_empty + 8 * i, 2);
        }
        publish_mbarriers();
    }
    __syncthreads();

    if (group == 2) {
        give_registers<24>();
        if (threadIdx.x == 2 * GROUP) {
            auto fetch = [&](unsigned to, const TensorMap &map, unsigned bar, int row) {
                mbarrier_expect(bar, TILE);
                for (int panel = 0; panel < PANELS; ++panel) tma_load(to + panel * PANEL, map, bar, 64 * panel, row);
            };
            fetch(q, map_q, q_full, head * queries + first);
            for (int tile = 0; tile < tiles; ++tile) {
                const int stage = tile % STAGES, row = head * keys + tile * BN;
                mbarrier_wait(k_empty + 8 * stage, tile / STAGES + 1 & 1);
                fetch(k + stage * TILE, map_k, k_full + 8 * stage, row);
                mbarrier_wait(v_empty + 8 * stage, tile / STAGES + 1 & 1);
                fetch(v + stage * TILE, map_v, v_full + 8 * stage, row);
            }
        }
        return;
    }
    take_registers<240>();
    const int thread = threadIdx.x % GROUP, lane = thread % 32, line = thread / 32 * 16;
    const int row = first + group * ROWS + line + lane / 4;  // the thread's, and 8 below
    const unsigned mine = q + group * ROWS * ROW_BYTES;
    auto release = [&](unsigned bar) { if (thread == 0) mbarrier_arrive(bar); };
    float o[PANELS][32] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {}, shrink[2];
    unsigned weights[BN / 16][4];
    if (IN_TURNS && group == 1) named_arrive(1, 2 * GROUP);  // the first group goes first
    mbarrier_wait(q_full, 0);
    mbarrier_wait(k_full, 0);
    {
        float s[BN / 2];
        if (IN_TURNS) named_barrier(1 + group, 2 * GROUP);
        product_fence();
        multiply_scores<DEPTH>(s, mine, k);
        if (IN_TURNS) named_arrive(2 - group, 2 * GROUP);
        product_wait<0>();
        pin(s);
        release(k_empty);
        if (CAUSAL && tiles == 1) mask_later(s, row, 0);
        soften(s, most, total, shrink, scale);
        pack(weights, s);
    }
    for (int tile = 1; tile < tiles; ++tile) {
        const int stage = tile % STAGES, before = (tile - 1) % STAGES;
        float s[BN / 2];
        mbarrier_wait(k_full + 8 * stage, tile / STAGES & 1);
        if (IN_TURNS) named_barrier(1 + group, 2 * GROUP);
        product_fence();
        multiply_scores<DEPTH>(s, mine, k + stage * TILE);
        mbarrier_wait(v_full + 8 * before, (tile - 1) / STAGES & 1);
        multiply_values<DEPTH>(o, weights, v + before * TILE);
        if (IN_TURNS) named_arrive(2 - group, 2 * GROUP);  // the other group may multiply
        product_wait<BESIDE ? 1 : 0>();
        pin(s);
        release(k_empty + 8 * stage);
        if (CAUSAL && tile == tiles - 1) mask_later(s, row, tile * BN);
        soften(s, most, total, shrink, scale);
        product_wait<0>();
        release(v_empty + 8 * before);
        #pragma unroll
        for (int panel = 0; panel < PANELS; ++panel) {
            pin(o[panel]);
            #pragma unroll
            for (int i = 0; i < 32; ++i) o[panel][i] *= shrink[i / 2 % 2];
        }
        pack(weights, s);
    }
    const int last = (tiles - 1) % STAGES;
    mbarrier_wait(v_full + 8 * last, (tiles - 1) / STAGES & 1);
    product_fence();
    multiply_values<DEPTH>(o, weights, v + last * TILE);
    if (IN_TURNS && group == 0) named_barrier(1, 2 * GROUP);  // takes up the other group's last turn
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        total[half] += __shfl_xor_sync(~0u, total[half], 1);
        total[half] += __shfl_xor_sync(~0u, total[half], 2);
        total[half] = 1 / total[half];
    }
    product_wait<0>();
    #pragma unroll
    for (int panel = 0; panel < PANELS; ++panel) {  // where the group's Q was
        pin(o[panel]);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned pairs[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int at = 8 * i + 2 * j;
                const __half2 both = __floats2half2_rn(o[panel][at] * total[j % 2], o[panel][at + 1] * total[j % 2]);
                pairs[j] = *reinterpret_cast<const unsigned *>(&both);
            }
            const int at = line + lane % 16;
            const unsigned to = mine + panel * PANEL + at * ROW_BYTES + ((2 * i + lane / 16 ^ (at & 7)) << 4);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                         ::"r"(to), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
        }
    }
    fence_async();
    named_barrier(3 + group, GROUP);
    if (thread == 0) {
        for (int panel = 0; panel < PANELS; ++panel) tma_store(map_o, mine + panel * PANEL, 64 * panel, head * queries + first + group * ROWS);
        tma_commit();
        tma_wait_read<0>();
    }
}
