// Five-point stencil over rows x columns by the tensor memory accelerator: a tile comes with its halo as one box, of which what lies outside of
// the grid is zero; a tile goes as a box, too, of which what lies outside is not written. A persistent block keeps STAGES tiles under way.
#include "hopper.cuh"

// A box is TILE_Y + 2 rows of TILE_X + 4 elements: one to the left, one to the right, two so that a row is a multiple of 16 bytes.
template <int TILE_X, int TILE_Y, int STAGES>
__global__ void __launch_bounds__(256)
tma_stencil(const __grid_constant__ TensorMap map_in, const __grid_constant__ TensorMap map_out, int rows, int columns, float middle, float beside)
{
    constexpr int WIDE = TILE_X + 4, HIGH = TILE_Y + 2, BOX_BYTES = WIDE * HIGH * 4, ROOM = (BOX_BYTES + 127) / 128 * 128, THREADS = 256;
    extern __shared__ __align__(128) unsigned char room[];
    __shared__ u64 bars[STAGES];
    unsigned char *tiles_out = room + STAGES * ROOM;
    const unsigned full = shared_address(bars);
    const int across = (columns + TILE_X - 1) / TILE_X, tiles = across * ((rows + TILE_Y - 1) / TILE_Y);
    auto ask = [&](int tile, int stage) {
        mbarrier_expect(full + 8 * stage, BOX_BYTES);
        tma_load(shared_address(room) + stage * ROOM, map_in, full + 8 * stage, tile % across * TILE_X - 1, tile / across * TILE_Y - 1);
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) mbarrier_init(full + 8 * i, 1);
        publish_mbarriers();
        for (int i = 0; i < STAGES; ++i)
            if (blockIdx.x + i * gridDim.x < tiles) ask(blockIdx.x + i * gridDim.x, i);
    }
    __syncthreads();
    int turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++turn) {
        const int stage = turn % STAGES;
        const float *in = reinterpret_cast<const float *>(room + stage * ROOM);
        float *out = reinterpret_cast<float *>(tiles_out + turn % 2 * TILE_X * TILE_Y * 4);
        mbarrier_wait(full + 8 * stage, turn / STAGES & 1);
        #pragma unroll
        for (int i = threadIdx.x; i < TILE_X * TILE_Y; i += THREADS) {
            const float *at = in + (i / TILE_X + 1) * WIDE + i % TILE_X + 1;
            out[i] = middle * at[0] + beside * ((at[-1] + at[1]) + (at[-WIDE] + at[WIDE]));
        }
        fence_async();
        __syncthreads();  // the box has been read, the tile is written
        if (threadIdx.x == 0) {
            tma_store(map_out, shared_address(out), tile % across * TILE_X, tile / across * TILE_Y);
            tma_commit();
            tma_wait_read<1>();  // the tile after the next one takes its place
            if (tile + STAGES * gridDim.x < tiles) ask(tile + STAGES * gridDim.x, stage);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) tma_wait_read<0>();
}
