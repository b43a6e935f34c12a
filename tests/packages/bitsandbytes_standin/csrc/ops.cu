// A kernel, and one call into each library that bitsandbytes links.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusparse.h>

extern __device__ float dequantize(signed char value, float scale);

__global__ void dequantize_all(const signed char *values, float *to, float scale, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = dequantize(values[i], scale);
}

static int cublas_major() {
  int value = -1;
  cublasGetProperty(MAJOR_VERSION, &value);
  return value;
}

static int cusparse_major() {
  int value = -1;
  cusparseGetProperty(MAJOR_VERSION, &value);
  return value;
}

extern "C" {

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

// All libraries answer without a GPU.
int libraries_answer() {
  return runtime_version() > 0 && cublas_major() > 0 && cublasLtGetVersion() > 0 &&
         cusparse_major() > 0;
}

int dequantize_on_device(const signed char *values, float *to, float scale, int count) {
  signed char *from = nullptr;
  float *made = nullptr;
  size_t size = count * sizeof(float);
  cudaError_t status = cudaMalloc(&from, count);
  if (status == cudaSuccess) status = cudaMalloc(&made, size);
  if (status == cudaSuccess) status = cudaMemcpy(from, values, count, cudaMemcpyHostToDevice);
  if (status == cudaSuccess) {
    dequantize_all<<<(count + 127) / 128, 128>>>(from, made, scale, count);
    status = cudaGetLastError();
  }
  if (status == cudaSuccess) status = cudaMemcpy(to, made, size, cudaMemcpyDeviceToHost);
  cudaFree(from);
  cudaFree(made);
  return status;
}
}
