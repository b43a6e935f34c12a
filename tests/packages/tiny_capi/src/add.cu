// A kernel, and what native.cpp calls of it.
#include <cstdio>

#include <cuda_runtime.h>

__global__ void add_one(int *values, int count) {
  // __FILE__: a build that leaks its folder shows it here.
  if (count < 0) printf("%s:%d: negative count\n", __FILE__, __LINE__);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += 1;
}

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

int add_one_on_device(int *value) {
  int *device = nullptr;
  cudaError_t status = cudaMalloc(&device, sizeof(int));
  if (status == cudaSuccess)
    status = cudaMemcpy(device, value, sizeof(int), cudaMemcpyHostToDevice);
  if (status == cudaSuccess) add_one<<<1, 1>>>(device, 1);
  if (status == cudaSuccess) status = cudaGetLastError();
  if (status == cudaSuccess)
    status = cudaMemcpy(value, device, sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(device);
  return status;
}
