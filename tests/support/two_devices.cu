// A program of the CUDA runtime on two devices: each has its own memory, variables and default stream, and reaches the other's memory once it may.
#include <cstdio>
#include <cstdlib>

__device__ int calls = 10;
__managed__ int sent = 0;
__device__ int behind = 20;

__global__ void send(const int *from, int *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + 1;
    if (i == 0) {
        calls++;
        behind += 2;
        atomicAdd(&sent, 1);
    }
}

static void say(const char *what, cudaError_t error) { printf("%s: %s\n", what, cudaGetErrorName(error)); }

int main() {
    const int n = 1000;
    int count = 0, current = -1, can = 0, host[n], *mine[2];
    say("count", cudaGetDeviceCount(&count));
    cudaGetDevice(&current);
    printf("%d devices, %d is current\n", count, current);
    if (count != 2) return 0;
    for (int device = 0; device < 2; device++) {
        cudaSetDevice(device);
        cudaGetDevice(&current);
        cudaMalloc(&mine[device], n * sizeof(int));
        cudaMemset(mine[device], 0, n * sizeof(int));
        cudaPointerAttributes attributes;
        cudaPointerGetAttributes(&attributes, mine[device]);
        cudaDeviceProp properties;
        cudaGetDeviceProperties(&properties, device);
        printf("device %d, memory of %d, bus %d\n", current, attributes.device, properties.pciBusID);
    }
    cudaSetDevice(0);
    cudaDeviceCanAccessPeer(&can, 0, 1);
    say("own", cudaDeviceEnablePeerAccess(0, 0));
    say("none", cudaDeviceEnablePeerAccess(2, 0));
    say("not enabled", cudaDeviceDisablePeerAccess(1));
    say("enabled", cudaDeviceEnablePeerAccess(1, 0));
    say("again", cudaDeviceEnablePeerAccess(1, 0));
    cudaGetLastError();
    send<<<4, 256>>>(mine[0], mine[1], n);
    say("sent", cudaDeviceSynchronize());
    cudaSetDevice(1);
    cudaMemcpy(host, mine[1], sizeof(host), cudaMemcpyDefault);
    int seen[2];
    for (int device = 0; device < 2; device++) {
        cudaSetDevice(device);
        cudaMemcpyFromSymbol(&seen[device], calls, sizeof(int));
    }
    printf("can %d, received %d %d, calls %d %d\n", can, host[0], host[n - 1], seen[0], seen[1]);
    send<<<4, 256>>>(mine[1], mine[1], n);
    cudaDeviceSynchronize();
    cudaMemcpyFromSymbol(&seen[0], behind, sizeof(int));
    printf("sent from both %d, of device 1 %d\n", sent, seen[0]);
    say("copied", cudaMemcpyPeer(mine[0], 0, mine[1], 1, n * sizeof(int)));
    // A stream of device 0 takes no launch of device 1.
    cudaStream_t stream;
    cudaSetDevice(0);
    cudaStreamCreate(&stream);
    cudaSetDevice(1);
    send<<<4, 256, 0, stream>>>(mine[1], mine[1], n);
    say("a stream of another device", cudaGetLastError());
    cudaDeviceReset();
    cudaSetDevice(0);
    cudaMemcpy(host, mine[0], sizeof(host), cudaMemcpyDefault);
    cudaMemcpyFromSymbol(&seen[0], calls, sizeof(int));
    printf("after the reset of device 1: %d, calls %d\n", host[5], seen[0]);
    // What device 1 had is gone, and device 1 has no access to device 0.
    cudaSetDevice(1);
    cudaMalloc(&mine[1], n * sizeof(int));
    send<<<4, 256>>>(mine[1], mine[0], n);
    say("without access", cudaDeviceSynchronize());
    cudaSetDevice(0);
    send<<<4, 256>>>(mine[0], mine[0], n);
    say("device 0", cudaDeviceSynchronize());
    return 0;
}
