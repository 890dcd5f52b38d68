// A program of the CUDA runtime: memory of every kind, children, and what it is told of failures.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

__constant__ int scale[4];
__device__ int offset = 1;
__managed__ int total;

__global__ void combine(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] = x[i] * scale[i % 4] + offset;
        atomicAdd(&total, x[i]);
    }
    if (i == 0) printf("from the kernel: %d\n", x[0]);
}

__global__ void twice(int *x) { x[threadIdx.x] *= 2; }

__global__ void count(volatile long *number) {
    for (long i = 0; i < 1L << 40; i++) *number += i;
}

static int pageable() {
    int *x = (int *)malloc(64 * sizeof(int)), has = 0;
    for (int i = 0; i < 64; i++) x[i] = i;
    cudaDeviceGetAttribute(&has, cudaDevAttrPageableMemoryAccess, 0);
    twice<<<1, 64>>>(x);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%d %s %d\n", has, cudaGetErrorString(error), x[5]);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "pageable")) return pageable();
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    if (!strcmp(what, "children")) printf("device %s, %d SMs\n", properties.name, properties.multiProcessorCount);
    const int n = 64, factors[4] = {3, 3, 3, 3}, nine = 1;
    int *x, *pinned, *seen;
    cudaMallocHost(&pinned, n * sizeof(int));
    for (int i = 0; i < n; i++) pinned[i] = 3;
    cudaMalloc(&x, n * sizeof(int));
    int *none = pinned, *held = pinned;  // of no bytes: null, and no error
    if (cudaMalloc(&none, 0) || cudaMallocHost(&held, 0) || none || held || cudaFree(none) || cudaFreeHost(held)) return 9;
    none = pinned;
    if (cudaMallocAsync(&none, 0, 0) || none || cudaMallocManaged(&none, 0) != cudaErrorInvalidValue) return 9;
    cudaGetLastError();
    cudaMemcpy(x, pinned, n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(scale, factors, sizeof(factors));
    cudaMemcpyToSymbol(offset, &nine, sizeof(nine));
    total = 0;
    combine<<<1, n>>>(x, n);
    cudaError_t error = cudaDeviceSynchronize();
    if (!strcmp(what, "endless")) {
        long *number;
        cudaMalloc(&number, sizeof(long));
        cudaMemset(number, 0, sizeof(long));
        printf("waiting\n");
        fflush(stdout);
        count<<<1, 32>>>(number);
        cudaDeviceSynchronize();
    }
    if (strcmp(what, "children")) return 5;
    printf("constants, variables, managed memory: %s, %d\n", cudaGetErrorString(error), total == n * 10);
    cudaHostGetDevicePointer(&seen, pinned, 0);
    printf("pinned memory has one address: %d\n", seen == pinned);
    size_t pitch;
    char *rows, from[4][8] = {"one", "two", "three", "four"}, to[4][8];
    cudaMallocPitch((void **)&rows, &pitch, 8, 4);
    cudaMemcpy2D(rows, pitch, from, 8, 8, 4, cudaMemcpyHostToDevice);
    cudaMemcpy2D(to, 8, rows, pitch, 8, 4, cudaMemcpyDeviceToHost);
    printf("rows: %s, %d\n", cudaGetErrorString(cudaGetLastError()), !memcmp(from, to, sizeof(from)));
    combine<<<0, 32>>>(x, n);
    error = cudaGetLastError();
    printf("an empty grid: %s, then %s\n", cudaGetErrorName(error), cudaGetErrorName(cudaGetLastError()));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        error = cudaFree(0);
        printf("forked child: %d %s\n", error, cudaGetErrorString(error));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
    child = fork();
    if (!child) {
        freopen("/dev/null", "w", stdout);
        execl(argv[0], argv[0], (char *)0);
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    printf("started child: %d\n", WEXITSTATUS(status));
    return 7;
}
