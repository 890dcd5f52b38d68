// One pass of a merge sort: neighbouring runs of `run` sorted keys become one; each thread finds by binary search on the diagonal
// what of both runs is its own (merge path, Green, McColl and Bader, 2012).
template <int ITEMS>
__global__ void merge(const unsigned *__restrict__ x, unsigned *__restrict__ out, int run, int n)
{
    const long long at = (long long)(blockIdx.x * blockDim.x + threadIdx.x) * ITEMS;
    if (at >= n) return;
    const int first = at / (2 * run) * (2 * run), middle = min(first + run, n), end = min(first + 2 * run, n), diagonal = at - first;
    const int of_a = middle - first, of_b = end - middle;
    int low = max(0, diagonal - of_b), high = min(diagonal, of_a);
    while (low < high) {
        const int split = (low + high) / 2;
        if (x[first + split] <= x[middle + diagonal - 1 - split]) low = split + 1;
        else high = split;
    }
    int a = first + low, b = middle + diagonal - low;
    for (int item = 0; item < ITEMS && at + item < n; ++item) {
        const bool take_a = b >= end || (a < middle && x[a] <= x[b]);
        out[at + item] = take_a ? x[a] : x[b];
        take_a ? ++a : ++b;
    }
}
