// Best local alignment of pairs of sequences (Smith and Waterman): a warp a pair, lane j a column of the second, rows go down its diagonal.
#include "warp.cuh"

template <int MATCH, int MISMATCH, int GAP>
__global__ void alignment(const unsigned char *__restrict__ first, const unsigned char *__restrict__ second, int *best, int pairs, int length)
{
    const int pair = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (pair >= pairs) return;
    const unsigned char *a = first + (size_t)pair * length;
    const int own = second[(size_t)pair * 32 + lane];
    int here = 0, upper_left = 0, most = 0;
    for (int step = 0; step < length + 31; ++step) {
        const int row = step - lane;
        int left = __shfl_up_sync(0xFFFFFFFFu, here, 1);  // column j - 1 was in this row one step ago
        if (lane == 0) left = 0;
        if (row >= 0 && row < length) {
            const int score = max(max(0, upper_left + (a[row] == own ? MATCH : MISMATCH)), max(here, left) + GAP);
            upper_left = left;
            here = score;
            most = max(most, score);
        }
    }
    most = warp_max(most);
    if (lane == 0) best[pair] = most;
}
