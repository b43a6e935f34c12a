// A templated kernel, and functions that need the CUDA runtime library but no GPU.
#include <cstdio>

#include <cuda_runtime.h>

// __FILE__ on both sides: a build that leaks its folder shows it here.
#define TINY_CHECK(condition) \
  if (!(condition)) printf("%s:%d: %s is false\n", __FILE__, __LINE__, #condition)

template <typename T>
__global__ void scale(T *values, int count, T factor) {
  TINY_CHECK(count > 0);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

template <typename T>
int scale_on_device(T *values, int count, T factor) {
  T *device = nullptr;
  size_t size = count * sizeof(T);
  cudaError_t status = cudaMalloc(&device, size);
  if (status == cudaSuccess) status = cudaMemcpy(device, values, size, cudaMemcpyHostToDevice);
  if (status == cudaSuccess) scale<T><<<(count + 127) / 128, 128>>>(device, count, factor);
  if (status == cudaSuccess) status = cudaGetLastError();
  if (status == cudaSuccess) status = cudaMemcpy(values, device, size, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return status;
}

extern "C" {

int tiny_runtime_version() {
  int version = 0;
  TINY_CHECK(cudaRuntimeGetVersion(&version) == cudaSuccess);
  return version;
}

int tiny_answer() { return tiny_runtime_version() >= 13000 ? 42 : -1; }

int tiny_scale_float(float *values, int count, float factor) {
  return scale_on_device(values, count, factor);
}

int tiny_scale_double(double *values, int count, double factor) {
  return scale_on_device(values, count, factor);
}
}
