// Squares on the GPU, their sum through cuBLAS, and functions that need neither.
#include <cublas_v2.h>
#include <cuda_runtime.h>

extern __device__ float square(float value);

__global__ void square_all(float *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = square(values[i]);
}

static int cublas_property(libraryPropertyType which) {
  int value = -1;
  cublasGetProperty(which, &value);
  return value;
}

extern "C" {

const char *tiny_source() { return __FILE__; }

int tiny_cublas_version() {
  return cublas_property(MAJOR_VERSION) * 100 + cublas_property(MINOR_VERSION);
}

int tiny_answer() {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  return runtime >= 13000 && cublas_property(MAJOR_VERSION) == 13 ? 42 : -1;
}

int tiny_sum_of_squares(const float *values, int count, float *sum) {
  float *device = nullptr;
  size_t size = count * sizeof(float);
  cublasHandle_t cublas = nullptr;
  cudaError_t status = cudaMalloc(&device, size);
  if (status == cudaSuccess) status = cudaMemcpy(device, values, size, cudaMemcpyHostToDevice);
  if (status == cudaSuccess) square_all<<<(count + 127) / 128, 128>>>(device, count);
  if (status == cudaSuccess) status = cudaGetLastError();
  bool summed = status == cudaSuccess && cublasCreate(&cublas) == CUBLAS_STATUS_SUCCESS &&
                cublasSasum(cublas, count, device, 1, sum) == CUBLAS_STATUS_SUCCESS;
  if (cublas) cublasDestroy(cublas);
  cudaFree(device);
  return summed ? 0 : 1;
}
}
