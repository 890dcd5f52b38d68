// A walk through the shared memory of a block of the cluster, as HPMLL/NVIDIA-Hopper-Benchmark describes its measurements, written anew: one thread a block,
// of which that of rank `start` walks through the memory of rank `to`.
extern "C" __global__ void chase(int *out, int start, int to, int rounds) {
    __shared__ int next[1024];
    unsigned rank, remote, here = (unsigned)__cvta_generic_to_shared(next);
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    for (int i = 0; i < 128; i++) next[i] = i + 1;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (rank == start) {
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(here), "r"(to));
        int index = 0;
        for (int i = 0; i < rounds; i++)
            asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(index) : "r"(remote + index * 4) : "memory");
        out[0] = index;
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
