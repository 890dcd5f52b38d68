// Graphs in compressed rows: a level of breadth-first search from a queue, triangles by sorted neighbours, components by union-find.
#include "warp.cuh"

__global__ void bfs_level(const int *__restrict__ starts, const int *__restrict__ neighbours, const int *__restrict__ queue, const unsigned *queued, int *next, unsigned *next_queued, int *depth, int level)
{
    const int lane = threadIdx.x % 32;
    for (unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < *queued; at += gridDim.x * blockDim.x / 32) {
        const int vertex = queue[at], end = starts[vertex + 1];
        for (int first = starts[vertex]; first < end; first += 32) {
            const int other = first + lane < end ? neighbours[first + lane] : -1;
            const bool found = other >= 0 && atomicCAS(depth + other, -1, level) == -1;
            const unsigned all = __ballot_sync(0xFFFFFFFFu, found);
            unsigned base = 0;
            if (lane == 0 && all) base = atomicAdd(next_queued, (unsigned)__popc(all));
            base = __shfl_sync(0xFFFFFFFFu, base, 0);
            if (found) next[base + __popc(all & ((1u << lane) - 1))] = other;
        }
    }
}

// Edges (u, v) with u < v; neighbours greater than their vertex only, in order. A thread intersects two lists by binary search.
__global__ void triangles(const int *__restrict__ starts, const int *__restrict__ neighbours, const int2 *__restrict__ edges, int count, unsigned long long *total)
{
    unsigned found = 0;
    const int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge < count) {
        const int2 ends = edges[edge];
        for (int at = starts[ends.x]; at < starts[ends.x + 1]; ++at) {
            const int wanted = neighbours[at];
            int low = starts[ends.y], high = starts[ends.y + 1];
            while (low < high) {
                const int middle = (low + high) / 2;
                if (neighbours[middle] < wanted) low = middle + 1;
                else high = middle;
            }
            found += low < starts[ends.y + 1] && neighbours[low] == wanted;
        }
    }
    found = warp_sum(found);
    if (threadIdx.x % 32 == 0 && found) atomicAdd(total, (unsigned long long)found);
}

__device__ int root_of(volatile int *parent, int vertex)
{
    int up = parent[vertex];
    while (up != vertex) {
        const int next = parent[up];
        if (next != up) parent[vertex] = next;  // halve the path
        vertex = up;
        up = next;
    }
    return vertex;
}

__global__ void unite(int *parent, const int2 *__restrict__ edges, int count)
{
    const int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge >= count) return;
    int a = root_of(parent, edges[edge].x), b = root_of(parent, edges[edge].y);
    while (a != b) {
        if (a < b) { const int other = a; a = b, b = other; }
        const int seen = atomicCAS(parent + a, a, b);
        if (seen == a) break;
        a = root_of(parent, seen), b = root_of(parent, b);
    }
}

__global__ void flatten(int *parent, int vertices)
{
    const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
    if (vertex < vertices) parent[vertex] = root_of(parent, vertex);
}
