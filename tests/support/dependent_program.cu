// Kernels of which the second depends on the first programmatically (programmatic dependent launch): by cudaLaunchKernelEx, by cuLaunchKernelEx, and as a CUDA
// graph's edge, captured and made by hand. Each line ends in 1 where the result is right. With an argument the program leaves by _exit.
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int error = (int)(call);                                                                   \
        if (error) printf("%d %s: %d\n", __LINE__, #call, error);                                  \
    } while (0)

const int n = 132 * 256;

// Most of its work comes after its dependents may begin.
__global__ void first(int *data) {
    cudaTriggerProgrammaticLaunchCompletion();
    int x = blockIdx.x * blockDim.x + threadIdx.x, i = x;
    for (int k = 0; k < 500; k++) x = x * 1664525 + 1013904223;
    data[i] = x == 7 ? 0 : i;
}
// What it does before the wait needs nothing of the first.
__global__ void second(const int *data, int *out, int own) {
    int x = own;
    for (int k = 0; k < 300; k++) x = x * 1664525 + 1013904223;
    cudaGridDependencySynchronize();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = data[i] + (x == 7 ? 0 : own);
}

static int host[n];
static int *data, *out;

static bool right(int own) {
    CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        if (host[i] != i + own) return false;
    CHECK(cudaMemset(data, 0, n * sizeof(int)));
    CHECK(cudaMemset(out, 0, n * sizeof(int)));
    return true;
}

static void launch(cudaStream_t stream, int own) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = n / 256, config.blockDim = 256, config.stream = stream;
    config.attrs = &attribute, config.numAttrs = 1;
    first<<<n / 256, 256, 0, stream>>>(data);
    CHECK(cudaLaunchKernelEx(&config, second, (const int *)data, out, own));
}

static void launch_by_driver(CUstream stream, int own) {
    cudaFunction_t kernel;
    CHECK(cudaGetFuncBySymbol(&kernel, (const void *)second));
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {};
    config.gridDimX = n / 256, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 256, config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream, config.attrs = &attribute, config.numAttrs = 1;
    void *arguments[] = {&data, &out, &own};
    first<<<n / 256, 256, 0, stream>>>(data);
    CHECK(cuLaunchKernelEx(&config, (CUfunction)kernel, arguments, nullptr));
}

static cudaGraphNode_t kernel_node(cudaGraph_t graph, void *kernel, void **arguments) {
    cudaKernelNodeParams parameters = {};
    parameters.func = kernel, parameters.gridDim = n / 256, parameters.blockDim = 256;
    parameters.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
    return node;
}

static void run_graph(cudaGraph_t graph, cudaStream_t stream) {
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
}

int main(int count, char **) {
    CHECK(cudaMalloc(&data, n * sizeof(int)));
    CHECK(cudaMalloc(&out, n * sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {  // the second time with code in the caches
        launch(stream, 5);
        CHECK(cudaStreamSynchronize(stream));
        printf("runtime %d\n", right(5));
    }
    if (count > 1) {
        launch(stream, 5);
        CHECK(cudaStreamSynchronize(stream));
        fflush(stdout);
        _exit(0);
    }
    launch_by_driver(stream, 6);
    CHECK(cudaStreamSynchronize(stream));
    printf("driver %d\n", right(6));

    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch(stream, 7);
    CHECK(cudaStreamEndCapture(stream, &graph));
    run_graph(graph, stream);
    printf("captured %d\n", right(7));

    int own = 8;
    void *of_first[] = {&data}, *of_second[] = {&data, &out, &own};
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t one = kernel_node(graph, (void *)first, of_first), other = kernel_node(graph, (void *)second, of_second);
    cudaGraphEdgeData edge = {};
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddDependencies(graph, &one, &other, &edge, 1));
#else
    CHECK(cudaGraphAddDependencies_v2(graph, &one, &other, &edge, 1));
#endif
    run_graph(graph, stream);
    printf("edge %d\n", right(8));
    return 0;
}
