// What a benchmark does between repeats that are to find no data of theirs: it writes a buffer larger than L2, whose lines then lie there, to be
// written back when others take their place.
__global__ void flush(float4 *buffer, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) buffer[i] = make_float4(0, 0, 0, 0);
}
