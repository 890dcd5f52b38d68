// Launches of launches, memory from the device heap, launches made again, a captured allocation: each line ends in 1 where it is right.
#include <cstdio>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error) printf("%d %s: %s\n", __LINE__, #call, cudaGetErrorName(error));       \
    } while (0)

__global__ void add(int *p, int k) { p[threadIdx.x] += k; }
__global__ void twice(int *p, int depth) {
    if (threadIdx.x) return;
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    add<<<1, 4, 0, cudaStreamTailLaunch>>>(p, 1000 * p[0]);  // as p is now, but after all the others
    add<<<1, 8, 0, stream>>>(p, 1);
    if (depth) twice<<<1, 32>>>(p, depth - 1);
    cudaMemsetAsync(p + 8, 0, 4, stream);
    cudaStreamDestroy(stream);
}
__device__ int **held;
__global__ void take(int n) {
    held = (int **)malloc(n * sizeof(int *));
    for (int i = 0; i < n; i++) held[i] = (int *)malloc(4);
    *held[n - 1] = 41;
}
__global__ void give(int n, int *out) {
    out[0] = *held[n - 1] + 1;
    for (int i = 0; i < n; i++) free(held[i]);
    free(held);
}
__global__ void scale(float *to, const float *from, int n, float k) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float x = from[i];
        for (int j = 0; j < 40; j++) x = x * k + 1;
        to[i] = x;
    }
}

static int h[16];

int main() {
    int *d;
    CHECK(cudaMalloc(&d, 64));
    CHECK(cudaMemset(d, 0, 64));
    CHECK(cudaMemset(d + 8, 1, 4));
    twice<<<1, 32>>>(d, 2);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(h, d, 64, cudaMemcpyDeviceToHost));
    printf("launches of launches %d\n", h[7] == 3 && h[0] == 3 + 2000 + 1000 && h[8] == 0);

    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    take<<<1, 1>>>(100);
    give<<<1, 1>>>(100, d);
    CHECK(cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost));
    printf("heap %d\n", h[0] == 42);

    const int n = 1 << 16;
    static float a[n], b[n];
    float *from, *to;
    CHECK(cudaMalloc(&from, sizeof a));
    CHECK(cudaMalloc(&to, sizeof a));
    for (int i = 0; i < n; i++) a[i] = i;
    CHECK(cudaMemcpy(from, a, sizeof a, cudaMemcpyHostToDevice));
    for (int i = 0; i < 6; i++) scale<<<16, 256>>>(to, from, n, 0.5f);
    CHECK(cudaMemcpy(b, to, sizeof b, cudaMemcpyDeviceToHost));
    bool right = b[0] == 2 && b[n - 1] == 2;
    a[n - 1] = 1e20f;
    CHECK(cudaMemcpy(from, a, sizeof a, cudaMemcpyHostToDevice));
    scale<<<16, 256>>>(to, from, n, 0.5f);
    CHECK(cudaMemcpy(b, to, sizeof b, cudaMemcpyDeviceToHost));
    printf("made again %d\n", right && b[n - 1] > 1e7f);

    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    int *inside;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync((void **)&inside, 16, stream));
    CHECK(cudaMemcpyAsync(inside, h, 16, cudaMemcpyHostToDevice, stream));
    add<<<1, 4, 0, stream>>>(inside, 3);
    CHECK(cudaMemcpyAsync(d, inside, 16, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaFreeAsync(inside, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    CHECK(cudaGraphLaunch(run, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost));
    printf("captured allocation %d\n", h[0] == 45);
    return 0;
}
