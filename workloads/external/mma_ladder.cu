// C = A B in half precision with single-precision sums, six rungs of a ladder for the m16n8k16 product, after their description. A is row-major;
// so is B in the naive rungs, and lies transposed (a row a column of B) in the others. Blocks are 16 x 16 threads: eight warps, 2 x 4 of them
// over a block's tile. `pitch` is the side of the square matrices, `depth` the common dimension that is summed over: the same, unless a
// launch is cut short.
#include <cuda_fp16.h>

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void load_four(unsigned *to, const uint4 *from)
{
    const unsigned place = __cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(place));
}

__device__ __forceinline__ void load_two(unsigned *to, const uint4 *from)
{
    const unsigned place = __cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(place));
}

__device__ __forceinline__ void copy(uint4 *to, const uint4 *from)
{
    const unsigned place = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(place), "l"(from));
}

// 1.0 and 1.1: tiles of 32 x 32 by 16, SIDE x SIDE of them a block; single halves from and to shared memory.
template <int SIDE>
__global__ void __launch_bounds__(256) naive(const half *a, const half *b, float *c, int pitch, int depth)
{
    __shared__ half of_a[SIDE * 32][16], of_b[16][SIDE * 32];
    const int x = threadIdx.x, y = threadIdx.y, t = y * 16 + x, warp = t / 32, lane = t % 32;
    const int row = SIDE * 32 * blockIdx.y, column = SIDE * 32 * blockIdx.x;
    const int down = 16 * (warp / 4), right = 8 * (warp % 4), group = lane / 4, pair = lane % 4 * 2;
    float sums[SIDE][SIDE][4] = {0.0f};
    half piece_a[8], piece_b[4];
    for (int k = 0; k < depth; k += 16) {
        for (int i = 0; i < SIDE * 32; i += 32) {
            of_a[i + y][x] = a[(row + i + y) * pitch + k + x];
            of_a[i + 16 + y][x] = a[(row + i + 16 + y) * pitch + k + x];
        }
        for (int j = 0; j < SIDE * 32; j += 32) {
            of_b[y][j + x] = b[(k + y) * pitch + column + j + x];
            of_b[y][j + 16 + x] = b[(k + y) * pitch + column + j + 16 + x];
        }
        __syncthreads();
        for (int i = 0; i < SIDE; ++i) {
            for (int e = 0; e < 8; ++e) piece_a[e] = of_a[i * 32 + down + group + e / 2 % 2 * 8][pair + e % 2 + e / 4 * 8];
            for (int j = 0; j < SIDE; ++j) {
                for (int e = 0; e < 4; ++e) piece_b[e] = of_b[pair + e % 2 + e / 2 * 8][j * 32 + right + group];
                multiply(sums[i][j], reinterpret_cast<const unsigned *>(piece_a), reinterpret_cast<const unsigned *>(piece_b));
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < SIDE; ++i)
        for (int j = 0; j < SIDE; ++j)
            for (int e = 0; e < 4; ++e)
                c[(row + i * 32 + down + group + e / 2 * 8) * pitch + column + j * 32 + right + pair + e % 2] = sums[i][j][e];
}

// A row of shared memory is 128 bytes: eight vectors, two rows of a tile that is 32 deep. Vectors are exchanged within a row by its number modulo
// four, so that neither stores nor ldmatrix meet a bank twice.
struct Places {
    int store_row, store_column, a_row, a_column, b_row, b_column;

    __device__ Places(int warp, int lane)
        : store_row(warp * 4 + lane / 8), store_column(lane % 8 ^ lane / 8), a_row(lane % 16 / 2),
          a_column((lane / 16 + lane % 2 * 4) ^ lane % 16 / 2 % 4), b_row(lane % 8 / 2), b_column((lane / 8 + lane % 2 * 4) ^ lane % 8 / 2 % 4)
    {
    }
};

__device__ __forceinline__ void store_pairs(float *c, int pitch, int row, int column, int lane, const float (&sums)[4])
{
    const int group = lane / 4, pair = lane % 4 * 2;
    *reinterpret_cast<float2 *>(&c[(row + group) * pitch + column + pair]) = make_float2(sums[0], sums[1]);
    *reinterpret_cast<float2 *>(&c[(row + group + 8) * pitch + column + pair]) = make_float2(sums[2], sums[3]);
}

// 2.0 and 2.1: tiles of 64 x 64 by 32, vectors of eight halves through registers into exchanged places, ldmatrix; A's pieces are loaded for each
// product anew, or once (KEEP_A) for both columns.
template <bool KEEP_A>
__global__ void __launch_bounds__(256) permuted(const half *a, const half *b, float *c, int pitch, int depth)
{
    __shared__ uint4 of_a[32][8], of_b[32][8];
    const int t = threadIdx.y * 16 + threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    const uint4 *rows_of_a = reinterpret_cast<const uint4 *>(a + row * pitch), *rows_of_b = reinterpret_cast<const uint4 *>(b + column * pitch);
    const int down = 16 * (warp / 4), right = 8 * (warp % 4);
    const Places at(warp, lane);
    float sums[2][2][4] = {0.0f};
    unsigned piece_a[8], piece_b[2];
    for (int k = 0; k < depth / 8; k += 4) {
        of_a[at.store_row][at.store_column] = rows_of_a[(warp * 8 + lane / 4) * pitch / 8 + k + lane % 4];
        of_b[at.store_row][at.store_column] = rows_of_b[(warp * 8 + lane / 4) * pitch / 8 + k + lane % 4];
        __syncthreads();
        for (int i = 0; i < 2; ++i) {
            const uint4 *from_a = of_a[down + i * 8 + at.a_row];
            if (KEEP_A) {
                load_four(piece_a, from_a + at.a_column);
                load_four(piece_a + 4, from_a + (at.a_column ^ 2));
            }
            for (int j = 0; j < 2; ++j) {
                const uint4 *from_b = of_b[right + j * 4 + at.b_row];
                if (!KEEP_A) load_four(piece_a, from_a + at.a_column);
                load_two(piece_b, from_b + at.b_column);
                multiply(sums[i][j], piece_a, piece_b);
                if (!KEEP_A) load_four(piece_a + 4, from_a + (at.a_column ^ 2));
                load_two(piece_b, from_b + (at.b_column ^ 2));
                multiply(sums[i][j], piece_a + 4, piece_b);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) store_pairs(c, pitch, row + i * 16 + 2 * down, column + j * 8 + 2 * right, lane, sums[i][j]);
}

// 3.0 and 3.1: three stages of asynchronous copies, one barrier a step; SIDE x SIDE products a warp, tiles of 32 SIDE x 32 SIDE by 32.
template <int SIDE>
__global__ void __launch_bounds__(256) staged(const half *a, const half *b, float *c, int pitch, int depth)
{
    constexpr int STAGES = 3, ROWS = SIDE * 16, PARTS = SIDE / 2;
    __shared__ uint4 of_a[STAGES * ROWS][8], of_b[STAGES * ROWS][8];
    const int t = threadIdx.y * 16 + threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * SIDE * 32, column = blockIdx.x * SIDE * 32;
    const int down = SIDE * 8 * (warp / 4), right = SIDE * 4 * (warp % 4), first = (warp * 8 + lane / 4) * pitch / 8 + lane % 4;
    const uint4 *from_a = reinterpret_cast<const uint4 *>(a + row * pitch) + first;
    const uint4 *from_b = reinterpret_cast<const uint4 *>(b + column * pitch) + first;
    const Places at(warp, lane);
    float sums[SIDE][SIDE][4] = {0.0f};
    unsigned piece_a[SIDE][8], piece_b[SIDE][4];

    auto copy_stage = [&](int stage, int k) {
        for (int part = 0; part < PARTS; ++part) copy(of_a[stage * ROWS + part * 32 + at.store_row] + at.store_column, from_a + part * 64 * pitch / 8 + k);
        for (int part = 0; part < PARTS; ++part) copy(of_b[stage * ROWS + part * 32 + at.store_row] + at.store_column, from_b + part * 64 * pitch / 8 + k);
        asm volatile("cp.async.commit_group;");
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) copy_stage(stage, stage * 4);
    for (int step = 0; step < depth / 32; ++step) {
        const uint4(*tile_a)[8] = of_a + step % STAGES * ROWS, (*tile_b)[8] = of_b + step % STAGES * ROWS;
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        for (int i = 0; i < SIDE; ++i) {
            load_four(piece_a[i], tile_a[down + i * 8 + at.a_row] + at.a_column);
            load_four(piece_a[i] + 4, tile_a[down + i * 8 + at.a_row] + (at.a_column ^ 2));
        }
        for (int j = 0; j < SIDE; ++j) {
            load_two(piece_b[j], tile_b[right + j * 4 + at.b_row] + at.b_column);
            load_two(piece_b[j] + 2, tile_b[right + j * 4 + at.b_row] + (at.b_column ^ 2));
        }
        // The last steps copy the last tile again.
        copy_stage((step + STAGES - 1) % STAGES, min((step + STAGES - 1) * 4, depth / 8 - 4));
        for (int i = 0; i < SIDE; ++i)
            for (int j = 0; j < SIDE; ++j) {
                multiply(sums[i][j], piece_a[i], piece_b[j]);
                multiply(sums[i][j], piece_a[i] + 4, piece_b[j] + 2);
            }
    }
    for (int i = 0; i < SIDE; ++i)
        for (int j = 0; j < SIDE; ++j) store_pairs(c, pitch, row + i * 16 + 2 * down, column + j * 8 + 2 * right, lane, sums[i][j]);
}
