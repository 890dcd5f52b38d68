// Prices of European options (Black and Scholes): logarithms, exponentials, roots and selects, no reuse.
__device__ __forceinline__ float normal_below(float d)  // Abramowitz and Stegun 26.2.17
{
    const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    const float tail = 0.39894228f * __expf(-0.5f * d * d) * (k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0.0f ? 1.0f - tail : tail;
}

__global__ void black_scholes(const float *__restrict__ price, const float *__restrict__ strike, const float *__restrict__ years, float *__restrict__ call, float *__restrict__ put, float rate, float volatility, int n)
{
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
        const float s = price[at], k = strike[at], t = years[at], root = volatility * sqrtf(t);
        const float d1 = (__logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / root, d2 = d1 - root;
        const float below1 = normal_below(d1), below2 = normal_below(d2), now = k * __expf(-rate * t);
        call[at] = s * below1 - now * below2;
        put[at] = now * (1.0f - below2) - s * (1.0f - below1);
    }
}
