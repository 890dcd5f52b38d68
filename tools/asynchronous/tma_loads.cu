// Boxes through a tensor map of -DRANK dimensions, one in flight a block of one thread, in their order along x, then y, then z: as HPMLL/NVIDIA-Hopper-Benchmark
// describes its measurements, written anew. RANK 0: plain bulk copies of X floats.
struct alignas(64) TensorMap { char bytes[128]; };
typedef unsigned long long u64;

constexpr int BYTES = 4 * X * Y * Z;

extern "C" __global__ void load_boxes(const __grid_constant__ TensorMap map, const float *from, float *out, int loads, int across, int along)
{
    extern __shared__ __align__(128) float tile[];
    __shared__ u64 bar;
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile), at = (unsigned)__cvta_generic_to_shared(&bar);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(at) : "memory");
    for (int i = 0; i < loads; i++) {
        const int box = i * gridDim.x + blockIdx.x, x = box % across * X, y = box / across % along * Y, z = box / across / along * Z;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(BYTES) : "memory");
#if RANK == 0
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(to), "l"(from + (size_t)box * X), "r"(BYTES), "r"(at) : "memory");
#elif RANK == 1
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"
                     ::"r"(to), "l"(&map), "r"(box * X), "r"(at) : "memory");
#elif RANK == 2
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(at) : "memory");
#else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                     ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(at) : "memory");
#endif
        asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}"
                     ::"r"(at), "r"(i & 1) : "memory");
    }
    out[blockIdx.x] = tile[0];
}
