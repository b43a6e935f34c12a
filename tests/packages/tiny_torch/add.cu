#include <c10/cuda/CUDAException.h>

__global__ void add(float *values, int count) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) values[at] += 1;
}

void add_one(float *values, int count) {
  add<<<(count + 255) / 256, 256>>>(values, count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
