// A kernel, and a function that needs the CUDA runtime library but no GPU.
#include <cuda_runtime.h>

__global__ void scale(float *values, int count, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

extern "C" {

int hello_runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

int hello_scale(float *values, int count, float factor) {
  float *device = nullptr;
  size_t size = count * sizeof(float);
  cudaError_t status = cudaMalloc(&device, size);
  if (status == cudaSuccess) status = cudaMemcpy(device, values, size, cudaMemcpyHostToDevice);
  if (status == cudaSuccess) scale<<<(count + 127) / 128, 128>>>(device, count, factor);
  if (status == cudaSuccess) status = cudaGetLastError();
  if (status == cudaSuccess) status = cudaMemcpy(values, device, size, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return status;
}
}
