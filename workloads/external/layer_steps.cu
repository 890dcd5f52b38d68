// Written after kernels of a training program in CUDA C++ and of one made from it (github.com/karpathy/llm.c, github.com/abideenml/llama3.cuda, dev/cuda): root-mean-square norms of rows by a thread and by a warp each, the gate of a
// feed-forward layer and its gradients by one element a thread and by eight, and the sum of a layer and what went around it.

#include <cuda_bf16.h>

using half_word = __nv_bfloat16;

constexpr int EIGHT = 8;

struct alignas(16) Eight {
    half_word of[EIGHT];
};

__device__ Eight once(const half_word *from)
{
    const int4 bits = __ldcs(reinterpret_cast<const int4 *>(from));
    return *reinterpret_cast<const Eight *>(&bits);
}

__device__ void keep(half_word *to, const Eight &value) { *reinterpret_cast<int4 *>(to) = *reinterpret_cast<const int4 *>(&value); }

__device__ float over_warp(float value)
{
    for (int apart = 16; apart > 0; apart >>= 1) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

extern "C" __global__ void rms_norm_a_thread(float *out, const float *in, const float *weight, const float *bias, int rows, int wide)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float *x = in + row * wide;
    float *to = out + row * wide;
    float squares = 0.0f;
    for (int i = 0; i < wide; i++) squares += x[i] * x[i];
    const float rms = sqrtf(squares / wide + 1e-5f);
    for (int i = 0; i < wide; i++) to[i] = x[i] / rms * weight[i] + bias[i];
}

extern "C" __global__ void rms_norm_a_warp(float *__restrict__ out, const float *__restrict__ in, const float *__restrict__ weight, const float *__restrict__ bias, int rows, int wide)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float *x = in + row * wide;
    float squares = 0.0f;
    for (int i = lane; i < wide; i += 32) squares += x[i] * x[i];
    const float rms = sqrtf(over_warp(squares) / wide + 1e-5f);
    float *to = out + row * wide;
    for (int i = lane; i < wide; i += 32) __stcs(to + i, __ldcs(x + i) / rms * weight[i] + bias[i]);
}

__device__ float gated(float x, float gate) { return x / (1.0f + expf(-x)) * gate; }

extern "C" __global__ void gate(half_word *out, const half_word *in, const half_word *by, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = __float2bfloat16(gated(__bfloat162float(in[i]), __bfloat162float(by[i])));
}

extern "C" __global__ void gate_by_eights(half_word *out, const half_word *in, const half_word *by, int count)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * EIGHT;
    if (i >= count) return;
    const Eight x = once(in + i), g = once(by + i);
    Eight result;
    for (int k = 0; k < EIGHT; k++) result.of[k] = __float2bfloat16(gated(__bfloat162float(x.of[k]), __bfloat162float(g.of[k])));
    keep(out + i, result);
}

__device__ void gradients(half_word x_, half_word gate_, half_word out_, half_word &of_x, half_word &of_gate)
{
    const float x = __bfloat162float(x_), gate = __bfloat162float(gate_), out = __bfloat162float(out_);
    const float share = 1.0f / (1.0f + expf(-x)), passed = x * share;
    of_x = __float2bfloat16(out * (share + passed * (1.0f - share)) * gate);
    of_gate = __float2bfloat16(out * passed);
}

extern "C" __global__ void gate_back(half_word *of_x, half_word *of_gate, const half_word *of_out, const half_word *in, const half_word *by, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    half_word first, second;
    gradients(in[i], by[i], of_out[i], first, second);
    of_x[i] = first;
    of_gate[i] = second;
}

extern "C" __global__ void gate_back_by_eights(half_word *of_x, half_word *of_gate, const half_word *of_out, const half_word *in, const half_word *by, int count)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * EIGHT;
    if (i >= count) return;
    const Eight out = once(of_out + i), x = once(in + i), g = once(by + i);
    Eight first, second;
    for (int k = 0; k < EIGHT; k++) gradients(x.of[k], g.of[k], out.of[k], first.of[k], second.of[k]);
    keep(of_x + i, first);
    keep(of_gate + i, second);
}

extern "C" __global__ void residual(float *out, const float *a, const float *b, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i] + b[i];
}

extern "C" __global__ void residual_by_strides(float *out, const float *a, const float *b, int count)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) out[i] = a[i] + b[i];
}
