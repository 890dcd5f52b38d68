// A short causal convolution along time in each channel, then SiLU: what state-space models do before their scan.
template <int K>
__global__ void causal_conv1d(const float *__restrict__ x, const float *__restrict__ weights, const float *__restrict__ bias, float *__restrict__ out, int channels, int tokens)
{
    const int channel = blockIdx.y, first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (first >= tokens) return;
    x += (size_t)channel * tokens, out += (size_t)channel * tokens;
    float w[K];
    #pragma unroll
    for (int i = 0; i < K; ++i) w[i] = weights[channel * K + i];
    float past[K + 3];
    #pragma unroll
    for (int i = 0; i < K - 1; ++i) past[i] = first - (K - 1) + i >= 0 ? x[first - (K - 1) + i] : 0.0f;
    const float4 own = *reinterpret_cast<const float4 *>(x + first);
    past[K - 1] = own.x, past[K] = own.y, past[K + 1] = own.z, past[K + 2] = own.w;
    float4 result;
    float *each = reinterpret_cast<float *>(&result);
    #pragma unroll
    for (int t = 0; t < 4; ++t) {
        float sum = bias[channel];
        #pragma unroll
        for (int i = 0; i < K; ++i) sum += w[i] * past[t + i];
        each[t] = sum / (1.0f + __expf(-sum));
    }
    *reinterpret_cast<float4 *>(out + first) = result;
}
