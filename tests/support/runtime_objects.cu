// CUDA arrays, textures, surfaces, graphs, captures and large parameters: each line that it prints ends in 1 where the result is right.
#include <cstdio>
#include <cstring>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t error = (call);                                                       \
        if (error) printf("%d %s: %s\n", __LINE__, #call, cudaGetErrorName(error));       \
    } while (0)
const int W = 32, H = 4, D = 3;

__global__ void read2D(cudaTextureObject_t texture, float *out) {
    out[blockIdx.x * W + threadIdx.x] = tex2D<float>(texture, threadIdx.x, blockIdx.x) + 1;
}
__global__ void read3D(cudaTextureObject_t texture, float *out) {
    out[(blockIdx.y * H + blockIdx.x) * W + threadIdx.x] = tex3D<float>(texture, threadIdx.x, blockIdx.x, blockIdx.y);
}
__global__ void twice(cudaSurfaceObject_t surface) {
    float value;
    surf2Dread(&value, surface, threadIdx.x * 4, blockIdx.x);
    surf2Dwrite(value * 2, surface, threadIdx.x * 4, blockIdx.x);
}
__global__ void add(float *p, float k) { p[threadIdx.x] += k; }
__device__ float table[8];
__global__ void from_table(float *p) { p[threadIdx.x] = table[threadIdx.x]; }

struct Large {
    int values[2000];
};
__global__ void sum(const __grid_constant__ Large large, int *total) {
    int found = 0;
    for (int i = threadIdx.x; i < 2000; i += 32) found += large.values[i];
    atomicAdd(total, found);
}

static float a[D * H * W], b[D * H * W], out[8];

static bool is(float scale, float offset, int n) {
    for (int i = 0; i < n; i++)
        if (b[i] != a[i] * scale + offset) return false;
    return true;
}

static void arrays(float *d) {
    cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat), found;
    cudaArray_t flat, volume;
    CHECK(cudaMallocArray(&flat, &format, W, H, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(flat, 0, 0, a, W * 4, W * 4, H, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {}, resource_found;
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = flat;
    cudaTextureDesc how = {}, how_found;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, 0));
    read2D<<<H, W>>>(texture, d);
    CHECK(cudaMemcpy(b, d, W * H * 4, cudaMemcpyDeviceToHost));
    printf("texture %d\n", is(1, 1, W * H));
    CHECK(cudaGetTextureObjectTextureDesc(&how_found, texture));
    CHECK(cudaGetTextureObjectResourceDesc(&resource_found, texture));
    printf("descriptions %d\n", !memcmp(&how, &how_found, sizeof how) && resource_found.res.array.array == flat);
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    twice<<<H, W>>>(surface);
    CHECK(cudaMemcpy2DFromArray(b, W * 4, flat, 0, 0, W * 4, H, cudaMemcpyDeviceToHost));
    printf("surface %d\n", is(2, 0, W * H));
    CHECK(cudaMalloc3DArray(&volume, &format, make_cudaExtent(W, H, D)));
    cudaMemcpy3DParms in = {}, between = {}, back = {};
    in.srcPtr = make_cudaPitchedPtr(a, W * 4, W, H);
    in.dstArray = volume;
    in.extent = make_cudaExtent(W, H, D);
    in.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&in));
    resource.res.array.array = volume;
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, 0));
    read3D<<<dim3(H, D), W>>>(texture, d);
    CHECK(cudaMemcpy(b, d, sizeof b, cudaMemcpyDeviceToHost));
    printf("volume %d\n", is(1, 0, W * H * D));
    cudaExtent extent;
    unsigned flags;
    CHECK(cudaArrayGetInfo(&found, &extent, &flags, volume));
    printf("array %d\n", !memcmp(&format, &found, sizeof found) && extent.depth == D && !flags);
    cudaPitchedPtr pitched;
    CHECK(cudaMalloc3D(&pitched, make_cudaExtent(W * 4, H, D)));
    between.srcArray = volume;  // without the first element, row and slice
    between.srcPos = make_cudaPos(1, 1, 1);
    between.dstPtr = back.srcPtr = pitched;
    between.extent = make_cudaExtent(W - 1, H - 1, D - 1);
    between.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3D(&between));
    back.dstPtr = make_cudaPitchedPtr(b, W * 4, W, H);
    back.dstPos = make_cudaPos(4, 1, 1);
    back.extent = make_cudaExtent((W - 1) * 4, H - 1, D - 1);
    back.kind = cudaMemcpyDeviceToHost;
    for (int i = (H + 1) * W + 1; i < W * H * 2; i++) b[i] = -1;
    for (int i = 0; i < W; i++) b[H * W + i] = a[H * W + i], b[(H + 1) * W] = a[(H + 1) * W];
    CHECK(cudaMemcpy3D(&back));
    printf("boxes %d\n", b[(H + 1) * W + 1] == a[(H + 1) * W + 1] && b[W * H * D - 1] == a[W * H * D - 1]);
    cudaMemcpy3DPeerParms peer = {};
    peer.srcArray = volume;
    peer.dstPtr = pitched;
    peer.extent = make_cudaExtent(W, H, D);
    CHECK(cudaMemcpy3DPeer(&peer));
    CHECK(cudaMemcpy(out, pitched.ptr, 32, cudaMemcpyDeviceToHost));
    peer.dstDevice = 1;
    printf("peer %d\n", !memcmp(out, a, 32) && cudaMemcpy3DPeer(&peer) == cudaErrorInvalidDevice);
    cudaGetLastError();
    format = cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindUnsigned);
    printf("three channels %d\n", cudaMallocArray(&flat, &format, 4, 4) == cudaErrorInvalidChannelDescriptor);
    cudaGetLastError();
}

static void graphs(float *d) {
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaGraphNode_t in, kernel, back;
    float k = 5;
    void *arguments[] = {&d, &k};
    cudaKernelNodeParams launch = {}, launch_found;
    launch.func = (void *)add;
    launch.gridDim = 1;
    launch.blockDim = 8;
    launch.kernelParams = arguments;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&in, graph, 0, 0, d, a, 32, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &in, 1, &launch));
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &kernel, 1, out, d, 32, cudaMemcpyDeviceToHost));
    cudaMemcpy3DParms copy_found;
    CHECK(cudaGraphKernelNodeGetParams(kernel, &launch_found));
    CHECK(cudaGraphMemcpyNodeGetParams(back, &copy_found));
    printf("nodes %d\n", launch_found.func == (void *)add && copy_found.dstPtr.ptr == out && copy_found.extent.width == 32);
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    CHECK(cudaGraphLaunch(run, 0));
    CHECK(cudaDeviceSynchronize());
    printf("graph %d\n", out[7] == 12);
    k = 9;
    CHECK(cudaGraphExecKernelNodeSetParams(run, kernel, &launch));
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(run, back, out + 4, d, 16, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphLaunch(run, 0));
    CHECK(cudaDeviceSynchronize());
    printf("changed %d\n", out[3] == 8 && out[7] == 12);
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNodeParams any = {cudaGraphNodeTypeKernel};
    any.kernel.func = (void *)from_table;
    any.kernel.gridDim = 1;
    any.kernel.blockDim = 8;
    any.kernel.kernelParams = arguments;
    CHECK(cudaGraphAddMemcpyNodeToSymbol(&in, graph, 0, 0, table, a + 8, 32, 0, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddNode(&kernel, graph, &in, 0, 1, &any));
    CHECK(cudaGraphAddMemcpyNodeFromSymbol(&back, graph, &kernel, 1, out, table, 16, 16, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    CHECK(cudaGraphLaunch(run, 0));
    CHECK(cudaMemcpy(b, d, 32, cudaMemcpyDeviceToHost));
    printf("variables %d\n", b[0] == 8 && b[7] == 15 && out[3] == 15);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 8, 0, stream>>>(d, 100);
    CHECK(cudaMemcpyAsync(out, d, 32, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    CHECK(cudaGraphLaunch(run, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("captured %d\n", out[7] == 115);
}

static void parameters(int *total) {
    Large large;
    int found;
    for (int i = 0; i < 2000; i++) large.values[i] = i;
    CHECK(cudaMemset(total, 0, 4));
    sum<<<1, 32>>>(large, total);
    CHECK(cudaMemcpy(&found, total, 4, cudaMemcpyDeviceToHost));
    printf("parameters %d\n", found == 1999 * 1000);
}

int main() {
    float *d;
    for (int i = 0; i < D * H * W; i++) a[i] = i;
    CHECK(cudaMalloc(&d, sizeof a));
    arrays(d);
    graphs(d);
    parameters((int *)d);
    return 0;
}
