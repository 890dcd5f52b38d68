// Each thread adds to one word of `words`, which lie `apart` bytes from each other, as often as `times` says; threads take words in turn.
__global__ void add_to_own_word(char *base, unsigned words, unsigned apart, int times)
{
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned *word = reinterpret_cast<unsigned *>(base + thread % words * apart);
    // Written so that the compiler does not add up what lanes of a warp have.
    for (int i = 0; i < times; ++i) asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(1) : "memory");
}
