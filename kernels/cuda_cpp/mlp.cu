// Two layers in one kernel: out = gelu(x W1) W2. The hidden layer of ROWS rows goes through shared memory in slices of HIDDEN.
template <int ROWS, int HIDDEN>
__global__ void mlp(const float *__restrict__ x, const float *__restrict__ w1, const float *__restrict__ w2, float *__restrict__ out, int inputs, int hidden, int outputs)
{
    extern __shared__ float shared[];
    float *xs = shared, *hs = shared + ROWS * inputs;
    const int t = threadIdx.x, first = blockIdx.x * ROWS;
    for (int at = t; at < ROWS * inputs; at += blockDim.x) xs[at] = x[(size_t)first * inputs + at];
    float sums[ROWS] = {};
    for (int begin = 0; begin < hidden; begin += HIDDEN) {
        __syncthreads();
        for (int column = t; column < HIDDEN; column += blockDim.x) {
            float own[ROWS] = {};
            for (int i = 0; i < inputs; ++i) {
                const float w = w1[(size_t)i * hidden + begin + column];
                #pragma unroll
                for (int row = 0; row < ROWS; ++row) own[row] += xs[row * inputs + i] * w;
            }
            #pragma unroll
            for (int row = 0; row < ROWS; ++row)
                hs[row * HIDDEN + column] = 0.5f * own[row] * (1.0f + tanhf(0.79788456f * (own[row] + 0.044715f * own[row] * own[row] * own[row])));
        }
        __syncthreads();
        if (t < outputs)
            for (int i = 0; i < HIDDEN; ++i) {
                const float w = w2[(size_t)(begin + i) * outputs + t];
                #pragma unroll
                for (int row = 0; row < ROWS; ++row) sums[row] += hs[row * HIDDEN + i] * w;
            }
    }
    if (t < outputs)
        #pragma unroll
        for (int row = 0; row < ROWS; ++row) out[(size_t)(first + row) * outputs + t] = sums[row];
}
