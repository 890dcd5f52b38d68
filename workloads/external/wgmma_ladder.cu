// C = A B^T in bfloat16 with single-precision sums on Hopper's asynchronous units, the rungs of a ladder after their description. A is m x k, B is
// n x k, C lies by columns (an array of n x m). Tiles of BM x BN, 64 deep, which is a row of the 128-byte swizzle.
//   alone   one warp group asks for a tile, waits for it with all its threads and multiplies
//   queued  a producer's thread runs ahead through SLOTS tiles, GROUPS warp groups multiply, each its part of the tile's rows
// LIBRARY: barriers of libcu++, at which every consumer's thread arrives; else mbarriers, at which one of a group does. PERSISTENT: a block goes from
// tile to tile. CLUSTER blocks along m share B by multicast. CURVE: tiles in an order that the host wrote down, else in areas of
// 16 x 8; `rounds`: after so many a block stops. STORE: halves one by one, written through, or by way of shared memory and the tensor memory accelerator.
#include <cuda/barrier>
#include <cuda_bf16.h>
#include "../../kernels/cuda_cpp/wgmma.cuh"

enum Store { PLAIN, THROUGH, ASYNCHRONOUS };
using Barrier = cuda::barrier<cuda::thread_scope_block>;

namespace {
constexpr int BK = 64, ROW_BYTES = 128, GROUP = 128, ROWS = 64, AREA_ROWS = 16, AREA_COLUMNS = 8;

__device__ __forceinline__ unsigned native(Barrier &bar) { return shared_address(cuda::device::barrier_native_handle(bar)); }

// A step along k: PARTS times 64 rows of A by BN of B.
template <int BN, int PARTS>
__device__ __forceinline__ void multiply_step(float (&d)[PARTS][BN / 2], unsigned a, unsigned b, bool overwrite)
{
    product_fence();
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
#pragma unroll
        for (int k = 0; k < BK / 16; ++k)
            multiply(Bfloat(), d[part], described(a + part * ROWS * ROW_BYTES) + 2 * k, described(b) + 2 * k, !overwrite || k > 0);
    product_commit();
    product_wait<0>();
}

template <int N, int PARTS>
__device__ __forceinline__ void clear(float (&d)[PARTS][N])
{
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
#pragma unroll
        for (int i = 0; i < N; ++i) d[part][i] = 0.0f;
}

// Sums 8 w .. 8 w + 7 of a thread are of rows (r, r, r + 8, r + 8) and columns (c, c + 1), then the same 8 columns on.
template <int BN, int PARTS, typename Put>
__device__ __forceinline__ void each_sum(const float (&d)[PARTS][BN / 2], bool lower_first, Put put)
{
    const int thread = threadIdx.x % GROUP, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
#pragma unroll
        for (int w = 0; w < BN / 16; ++w)
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                const int column = 16 * w + lane % 4 * 2 + pair / 2 * 8 + pair % 2, at = 8 * w + pair / 2 * 4 + pair % 2;
                if (lower_first) put(part * ROWS + row + 8, column, __float2bfloat16(d[part][at + 2]));
                put(part * ROWS + row, column, __float2bfloat16(d[part][at]));
                if (!lower_first) put(part * ROWS + row + 8, column, __float2bfloat16(d[part][at + 2]));
            }
}
} // namespace

template <int BM, int BN>
__global__ void __launch_bounds__(GROUP)
alone(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, __nv_bfloat16 *c, int m, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char room[];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier bars[2];
    const int row = blockIdx.x / (n / BN) * BM, column = blockIdx.x % (n / BN) * BN;
    const unsigned at_a = shared_address(room), at_b = at_a + BM * ROW_BYTES;
    float d[BM / ROWS][BN / 2];
    clear(d);
    if (threadIdx.x == 0) {
        init(&bars[0], blockDim.x);
        init(&bars[1], blockDim.x);
        fence_async();
    }
    __syncthreads();
    for (int step = 0; step < k / BK; ++step) {
        Barrier::arrival_token of_a, of_b;
        if (threadIdx.x == 0) {
            tma_load(at_a, map_a, native(bars[0]), step * BK, row);
            of_a = cuda::device::barrier_arrive_tx(bars[0], 1, BM * ROW_BYTES);
            tma_load(at_b, map_b, native(bars[1]), step * BK, column);
            of_b = cuda::device::barrier_arrive_tx(bars[1], 1, BN * ROW_BYTES);
        } else {
            of_a = bars[0].arrive();
            of_b = bars[1].arrive();
        }
        bars[0].wait(std::move(of_a));
        bars[1].wait(std::move(of_b));
        multiply_step<BN>(d, at_a, at_b, false);
    }
    __nv_bfloat16 *out = c + (size_t)column * m + row;
    each_sum<BN>(d, false, [&](int i, int j, __nv_bfloat16 value) { out[j * m + i] = value; });
}

// Tiles of a block, or of a cluster of them: `next` gives rows and columns of tiles.
template <bool PERSISTENT, bool CURVE, int CLUSTER>
struct Order {
    int at, rows, columns, rounds;
    const int *curve;

    __device__ __forceinline__ bool next(int &row, int &column)
    {
        if (PERSISTENT && rounds-- == 0) return false;
        if constexpr (CURVE) {
            if (at >= 16 || curve[at] < 0) return false;
            row = curve[at] >> 16;
            column = curve[at] & 65535;
            ++at;
            return true;
        } else {
            if (at >= rows * columns) return false;
            if constexpr (PERSISTENT) {
                constexpr int HIGH = AREA_ROWS / CLUSTER, AREA = HIGH * AREA_COLUMNS;
                const int area = at / AREA, inside = at % AREA, across = columns / AREA_COLUMNS;
                row = area / across * HIGH + inside / AREA_COLUMNS;
                column = area % across * AREA_COLUMNS + inside % AREA_COLUMNS;
                at += gridDim.x / CLUSTER;
            } else {
                row = at / columns;
                column = at % columns;
                at = rows * columns;
            }
            return true;
        }
    }
};

template <int BM, int BN, int SLOTS, int GROUPS, bool LIBRARY, bool PERSISTENT, int CLUSTER, bool CURVE, int STORE>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__((GROUPS + 1) * GROUP)
queued(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
       __nv_bfloat16 *c, const int *curve, int m, int n, int k, int rounds)
{
    constexpr int OF_GROUP = BM / GROUPS, PARTS = OF_GROUP / ROWS, SLOT = (BM + BN) * ROW_BYTES, WORDS = 16;
    extern __shared__ __align__(1024) unsigned char room[];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier full[SLOTS], empty[SLOTS];
    __shared__ int words[WORDS];
    const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP, steps = k / BK;
    const unsigned at = shared_address(room);
    if (CURVE && threadIdx.x < WORDS) words[threadIdx.x] = curve[blockIdx.x / CLUSTER * WORDS + threadIdx.x];
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; ++i) {
            if constexpr (LIBRARY) {
                init(&full[i], GROUPS * GROUP + 1);
                init(&empty[i], GROUPS * GROUP + 1);
            } else {
                mbarrier_init(native(full[i]), 1);
                mbarrier_init(native(empty[i]), GROUPS * CLUSTER);
            }
        }
        if constexpr (LIBRARY) fence_async(); else publish_mbarriers();
    }
    if constexpr (CLUSTER > 1) cluster_barrier(); else __syncthreads();
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    Order<PERSISTENT, CURVE, CLUSTER> order{CURVE ? 0 : (int)blockIdx.x / CLUSTER, m / BM / CLUSTER, n / BN, rounds, words};
    int row, column, slot = 0, phase = 0;
    auto go_on = [&]() { if (++slot == SLOTS) { slot = 0; phase ^= 1; } };

    if (group == 0) {
        give_registers<GROUPS <= 2 ? 24 : 32>();
        if (thread == 0) {
            while (order.next(row, column)) {
                for (int step = 0; step < steps; ++step, go_on()) {
                    const unsigned to = at + slot * BM * ROW_BYTES, to_b = at + (SLOTS * BM + slot * BN) * ROW_BYTES, bar = native(full[slot]);
                    if constexpr (LIBRARY) empty[slot].wait(empty[slot].arrive());
                    else {
                        mbarrier_wait(native(empty[slot]), phase);
                        mbarrier_expect(bar, SLOT);
                    }
                    tma_load(to, map_a, bar, step * BK, (row * CLUSTER + rank) * BM);
                    if constexpr (CLUSTER == 1) tma_load(to_b, map_b, bar, step * BK, column * BN);
                    else if (rank == 0) tma_load_multicast(to_b, map_b, bar, step * BK, column * BN, (1 << CLUSTER) - 1);
                    if constexpr (LIBRARY) static_cast<void>(cuda::device::barrier_arrive_tx(full[slot], 1, SLOT));
                }
            }
        }
    } else {
        take_registers<GROUPS <= 2 ? 240 : 160>();
        auto free = [&](int slot) {
            if constexpr (LIBRARY) static_cast<void>(empty[slot].arrive());
            else if constexpr (CLUSTER > 1) { if (thread < CLUSTER) mbarrier_arrive_there(in_block(native(empty[slot]), thread)); }
            else if (thread == 0) mbarrier_arrive(native(empty[slot]));
        };
        for (int i = 0; i < SLOTS; ++i) free(i);
        while (order.next(row, column)) {
            float d[PARTS][BN / 2];
            if (STORE == PLAIN) clear(d);
            for (int step = 0; step < steps; ++step, go_on()) {
                if constexpr (LIBRARY) full[slot].wait(full[slot].arrive());
                else mbarrier_wait(native(full[slot]), phase);
                const unsigned of_a = at + (slot * BM + (group - 1) * OF_GROUP) * ROW_BYTES;
                multiply_step<BN>(d, of_a, at + (SLOTS * BM + slot * BN) * ROW_BYTES, STORE != PLAIN && step == 0);
                free(slot);
            }
            const int first = (row * CLUSTER + rank) * BM;
            if constexpr (STORE == ASYNCHRONOUS) {
                __nv_bfloat16 *panel = reinterpret_cast<__nv_bfloat16 *>(room + SLOTS * SLOT) + (group - 1) * OF_GROUP * BN;
                if (threadIdx.x == GROUP) tma_wait_read<0>();
                named_barrier(2, GROUPS * GROUP);
                each_sum<BN>(d, false, [&](int i, int j, __nv_bfloat16 value) { panel[j * OF_GROUP + i] = value; });
                fence_async();
                named_barrier(1, GROUPS * GROUP);
                if (threadIdx.x == GROUP) {
                    for (int i = 0; i < GROUPS; ++i)
                        tma_store(map_c, at + SLOTS * SLOT + i * OF_GROUP * BN * 2, first + i * OF_GROUP, column * BN);
                    tma_commit();
                }
            } else {
                __nv_bfloat16 *out = c + (size_t)column * BN * m + first + (group - 1) * OF_GROUP;
                each_sum<BN>(d, STORE == THROUGH, [&](int i, int j, __nv_bfloat16 value) {
                    if (STORE == THROUGH) __stwt(&out[j * m + i], value); else out[j * m + i] = value;
                });
            }
        }
        if (STORE == ASYNCHRONOUS && threadIdx.x == GROUP) tma_wait_read<0>();
    }
    if constexpr (CLUSTER > 1) cluster_barrier();  // no block ends while another one writes or tells it something
}
