// Arithmetic between loads, written after the description of a benchmark of mixed intensity that others ran (github.com/ekondis/mixbench, its kernel of read-only accesses): a thread takes
// 8 elements that lie a block of 256 threads apart, squares each STEPS times and adds a seed, folds the eight into one, and does so 4 times, a grid's elements apart. What it would write is
// never what it finds. STEPS is known to the compiler, which repeats the steps of integers four at a time, those of the others up to 128.
#include <cuda_fp16.h>

__device__ float step_of(float a, float b, float c) { return a * b + c; }
__device__ double step_of(double a, double b, double c) { return a * b + c; }
__device__ int step_of(int a, int b, int c) { return a * b + c; }
__device__ __half2 step_of(__half2 a, __half2 b, __half2 c) { return __hfma2(a, b, c); }

template <typename Element> struct Number { static __device__ Element of(int value) { return static_cast<Element>(value); } };
template <> struct Number<__half2> { static __device__ __half2 of(int value) { return __half2half2(__int2half_rd(value)); } };

template <typename Element> __device__ bool same(Element a, Element b) { return a == b; }
template <> __device__ bool same<__half2>(__half2 a, __half2 b) { return __hbeq2(a, b); }

template <typename Element, unsigned STEPS, int TOGETHER>
__global__ void mixed(Element seed, Element *from)
{
    constexpr int THREADS = 256, EACH = 8, TURNS = 4;
    const int first = blockIdx.x * THREADS * EACH + threadIdx.x, turn = gridDim.x * THREADS * EACH;
    Element held[EACH];
    for (int k = 0; k < TURNS; ++k) {
        #pragma unroll
        for (int j = 0; j < EACH; ++j) {
            held[j] = from[first + j * THREADS + k * turn];
            #pragma unroll TOGETHER
            for (int i = 0; i < STEPS; ++i) held[j] = step_of(held[j], held[j], seed);
        }
        Element sum = Number<Element>::of(0);
        #pragma unroll
        for (int j = 0; j < EACH; j += 2) sum = step_of(held[j], held[j + 1], sum);
        if (same(sum, Number<Element>::of(-1))) from[first + k * turn] = sum;
    }
}
