// Element-wise kernels and the encoder of a language model, after the descriptions of two ladders for teaching and of a training program.

__global__ void add(const float *a, const float *b, float *c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void add_in_strides(const float *a, const float *b, float *c, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) c[i] = a[i] + b[i];
}

__global__ void add_by_fours(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 4 >= n) return;
    const float4 x = reinterpret_cast<const float4 *>(a)[i], y = reinterpret_cast<const float4 *>(b)[i];
    reinterpret_cast<float4 *>(c)[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

__device__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

__global__ void sigmoid_by_fours(const float4 *from, float4 *to, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 4 >= n) return;
    const float4 x = from[i];
    to[i] = make_float4(sigmoid_of(x.x), sigmoid_of(x.y), sigmoid_of(x.z), sigmoid_of(x.w));
}

__global__ void relu_by_fours(const float4 *from, float4 *to, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 4 >= n) return;
    const float4 x = from[i];
    to[i] = make_float4(fmaxf(0.0f, x.x), fmaxf(0.0f, x.y), fmaxf(0.0f, x.z), fmaxf(0.0f, x.w));
}

// A row of a table a token, added to the row of the token's place. EACH: elements a thread, of one load.
template <int EACH>
__global__ void encode(float *to, const int *tokens, const float *table, const float *places, int batch, int length, int columns)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * EACH;
    if (i >= batch * length * columns) return;
    const int token = i / columns, b = token / length, t = token % length, c = i % columns, word = tokens[b * length + t];
    float *out = to + b * length * columns + t * columns + c;
    const float *x = table + word * columns + c, *y = places + t * columns + c;
    if (EACH == 4) {
        const float4 p = __ldcs(reinterpret_cast<const float4 *>(x)), q = __ldcs(reinterpret_cast<const float4 *>(y));
        *reinterpret_cast<float4 *>(out) = make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w);
    } else {
        *out = *x + *y;
    }
}
