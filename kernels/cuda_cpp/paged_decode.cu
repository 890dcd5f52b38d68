// Attention with one query token a sequence, whose keys and values lie in pages that a table names: a cluster for each sequence and head of keys,
// whose blocks share out the pages. A producer thread asks the tensor memory accelerator for pages, STAGES ahead; WARPS warps take tokens; the
// blocks bring their parts together through the cluster's shared memory.
#include <cuda_fp16.h>
#include "hopper.cuh"

constexpr int WARPS = 4, WARP = 32, THREADS = (WARPS + 1) * WARP, EACH = 8;  // EACH: halves of a token that a lane has, 16 bytes

// Sums of a softmax whose largest exponent so far is `most`.
template <int DEPTH> struct Part { float most, weight, sums[DEPTH]; };

__device__ __forceinline__ float scale_of(float most, float all) { return most == -INFINITY ? 0 : exp2f(most - all); }

// q: [sequences][kv_heads * GROUP][DEPTH]; pages of keys and values: [pages][kv_heads][PAGE][DEPTH]; grid: SPLITS x kv_heads x sequences.
template <int DEPTH, int GROUP, int PAGE, int STAGES, int SPLITS>
__global__ void __cluster_dims__(SPLITS, 1, 1) __launch_bounds__(THREADS)
paged_decode(const __grid_constant__ TensorMap map_k, const __grid_constant__ TensorMap map_v, __half *o, const __half *q, const int *table,
             const int *lengths, int most_pages, float scale)
{
    constexpr int LANES = DEPTH / EACH, AT_ONCE = WARP / LANES, PAGE_BYTES = PAGE * DEPTH * 2;
    extern __shared__ __align__(128) unsigned char room[];
    __shared__ Part<DEPTH> of_warps[WARPS][GROUP], of_block[GROUP];
    __shared__ u64 bars[2 * STAGES];
    const unsigned full = shared_address(bars), empty = full + 8 * STAGES, base = shared_address(room);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, head = blockIdx.y, sequence = blockIdx.z, length = lengths[sequence];
    const int rank = SPLITS > 1 ? cluster_rank() : 0, pages = (length + PAGE - 1) / PAGE;
    const int first = pages * rank / SPLITS, last = pages * (rank + 1) / SPLITS;
    const int row = sequence * gridDim.y + head;  // of groups of heads
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, WARPS);
        }
        publish_mbarriers();
    }
    __syncthreads();
    if (warp == WARPS) {
        if (lane == 0) {
            prefetch_map(map_k), prefetch_map(map_v);
            for (int page = first, turn = 0; page < last; ++page, ++turn) {
                const int stage = turn % STAGES, there = table[sequence * most_pages + page];
                const unsigned to = base + stage * 2 * PAGE_BYTES, bar = full + 8 * stage;
                mbarrier_wait(empty + 8 * stage, turn / STAGES + 1 & 1);
                mbarrier_expect(bar, 2 * PAGE_BYTES);
                tma_load_4d(to, map_k, bar, 0, 0, head, there);
                tma_load_4d(to + PAGE_BYTES, map_v, bar, 0, 0, head, there);
            }
        }
    } else {
        const int mine = lane % LANES * EACH;
        float query[GROUP][EACH], sums[GROUP][EACH] = {}, most[GROUP], weight[GROUP] = {};
        #pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            most[g] = -INFINITY;
            #pragma unroll
            for (int i = 0; i < EACH; ++i) query[g][i] = __half2float(q[((size_t)row * GROUP + g) * DEPTH + mine + i]) * scale;
        }
        auto token_of = [&](unsigned char *where, float (&to)[EACH]) {
            const uint4 four = *reinterpret_cast<const uint4 *>(where);
            const __half2 *pairs = reinterpret_cast<const __half2 *>(&four);
            #pragma unroll
            for (int i = 0; i < EACH / 2; ++i) {
                const float2 both = __half22float2(pairs[i]);
                to[2 * i] = both.x, to[2 * i + 1] = both.y;
            }
        };
        for (int page = first, turn = 0; page < last; ++page, ++turn) {
            const int stage = turn % STAGES;
            unsigned char *keys = room + stage * 2 * PAGE_BYTES, *values = keys + PAGE_BYTES;
            mbarrier_wait(full + 8 * stage, turn / STAGES & 1);
            for (int token = warp * AT_ONCE + lane / LANES; token < PAGE; token += WARPS * AT_ONCE) {
                const bool there = page * PAGE + token < length;
                float key[EACH], value[EACH];
                token_of(keys + token * DEPTH * 2 + mine * 2, key);
                token_of(values + token * DEPTH * 2 + mine * 2, value);
                #pragma unroll
                for (int g = 0; g < GROUP; ++g) {
                    float score = 0;
                    #pragma unroll
                    for (int i = 0; i < EACH; ++i) score += query[g][i] * key[i];
                    #pragma unroll
                    for (int step = LANES / 2; step; step /= 2) score += __shfl_xor_sync(0xffffffff, score, step);
                    if (!there) score = -INFINITY;
                    const float all = fmaxf(most[g], score), kept = scale_of(most[g], all), p = scale_of(score, all);
                    most[g] = all;
                    weight[g] = weight[g] * kept + p;
                    #pragma unroll
                    for (int i = 0; i < EACH; ++i) sums[g][i] = sums[g][i] * kept + p * value[i];
                }
            }
            __syncwarp();
            if (lane == 0) mbarrier_arrive(empty + 8 * stage);
        }
        #pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            #pragma unroll
            for (int step = LANES; step < WARP; step *= 2) {
                const float other = __shfl_xor_sync(0xffffffff, most[g], step), all = fmaxf(most[g], other);
                const float kept = scale_of(most[g], all), added = scale_of(other, all);
                most[g] = all;
                weight[g] = weight[g] * kept + __shfl_xor_sync(0xffffffff, weight[g], step) * added;
                #pragma unroll
                for (int i = 0; i < EACH; ++i) sums[g][i] = sums[g][i] * kept + __shfl_xor_sync(0xffffffff, sums[g][i], step) * added;
            }
            if (lane == 0) of_warps[warp][g].most = most[g], of_warps[warp][g].weight = weight[g];
            if (lane < LANES)
                #pragma unroll
                for (int i = 0; i < EACH; ++i) of_warps[warp][g].sums[mine + i] = sums[g][i];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < GROUP * DEPTH; i += THREADS) {
        const int g = i / DEPTH, d = i % DEPTH;
        float all = -INFINITY, sum = 0, weight = 0;
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) all = fmaxf(all, of_warps[w][g].most);
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            const float scale_w = scale_of(of_warps[w][g].most, all);
            sum += of_warps[w][g].sums[d] * scale_w;
            weight += of_warps[w][g].weight * scale_w;
        }
        of_block[g].sums[d] = sum;
        if (d == 0) of_block[g].most = all, of_block[g].weight = weight;
    }
    if constexpr (SPLITS > 1) cluster_barrier(); else __syncthreads();
    for (int i = rank * THREADS + threadIdx.x; i < GROUP * DEPTH; i += SPLITS * THREADS) {
        const int g = i / DEPTH, d = i % DEPTH;
        const unsigned at = shared_address(&of_block[g]);
        float all = -INFINITY, most[SPLITS], sum = 0, weight = 0;
        #pragma unroll
        for (int block = 0; block < SPLITS; ++block) {
            most[block] = SPLITS > 1 ? read_there(in_block(at, block)) : of_block[g].most;
            all = fmaxf(all, most[block]);
        }
        #pragma unroll
        for (int block = 0; block < SPLITS; ++block) {
            const float scale_b = scale_of(most[block], all);
            sum += (SPLITS > 1 ? read_there(in_block(at + 8 + 4 * d, block)) : of_block[g].sums[d]) * scale_b;
            weight += (SPLITS > 1 ? read_there(in_block(at + 4, block)) : of_block[g].weight) * scale_b;
        }
        o[((size_t)row * GROUP + g) * DEPTH + d] = __float2half_rn(sum / weight);
    }
    if constexpr (SPLITS > 1) cluster_barrier();  // shared memory stays until it has been read
}
