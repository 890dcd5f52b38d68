// Written after the description in github.com/kzwrime/gpu_shm_microbench (README.md): a block of 128 threads keeps 16 KiB in shared memory and adds up 256 words of it,
// again and again; where a thread begins decides which lanes read the same word and which the same bank. Between two rounds each thread writes a word, so that no round can be left out.

// Where a thread begins: lanes in groups of `together` read the same word; lanes are `apart` rows of 32 words from their neighbours, so many of them before the next column. (As a signed
// number: by NVRTC 12.3 the plain unsigned one takes two more instructions a read, which the V100's times leave no room for: they are those of the other patterns to 0.01 %.)
template <int together, int apart>
static __device__ int begin() {
    const int lane = threadIdx.x;
    return apart > 1 ? lane % apart * 32 + lane / apart : lane / together;
}

static __device__ void add(float &sum, float word) { sum += word; }
static __device__ void add(float2 &sum, float2 word) { sum.x += word.x, sum.y += word.y; }
static __device__ void add(float4 &sum, float4 word) { sum.x += word.x, sum.y += word.y, sum.z += word.z, sum.w += word.w; }
static __device__ void fill(float &word, float value) { word = value; }
static __device__ void fill(float2 &word, float value) { word = make_float2(value, value); }
static __device__ void fill(float4 &word, float value) { word = make_float4(value, value, value, value); }
static __device__ float folded(float word) { return word; }
static __device__ float folded(float2 word) { return word.x * word.y; }
static __device__ float folded(float4 word) { return word.x * word.y * word.z * word.w; }

template <class Word, int together, int apart>
__global__ void shared_reads(float *array, int rounds) {
    constexpr int words = 16384 / sizeof(Word);
    __shared__ Word kept[words];
    const int mine = blockDim.x * blockIdx.x + threadIdx.x;
    for (int word = threadIdx.x; word < words; word += blockDim.x) fill(kept[word], array[mine]);
    Word sum;
    fill(sum, 0);
    for (int round = 0; round < rounds; round++) {
        for (int word = 0; word < 256; word++) add(sum, kept[begin<together, apart>() + word]);
        kept[threadIdx.x + round % 256] = sum;
    }
    array[mine] = folded(sum);
}
