// A kernel, and one call into each library that jaxmg's solvers need.
#include <cstdio>

#include <cusolverDn.h>
#include <cusolverMg.h>

#include "jaxlib/gpu/gpu_kernel_helpers.h"
#include "xla/ffi/api/ffi.h"

__global__ void scale(double *values, double factor, int count) {
  // __FILE__: a build that leaks its folder shows it here.
  if (count < 0) printf("%s:%d: negative count\n", __FILE__, __LINE__);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

extern "C" {

int cusolver_version() {
  int version = -1;
  return cusolverGetVersion(&version) == CUSOLVER_STATUS_SUCCESS ? version : -1;
}

int solve(double *values, double factor, int count) {
  cusolverMgHandle_t handle = nullptr;
  if (cusolverMgCreate(&handle) != CUSOLVER_STATUS_SUCCESS) return XLA_FFI_FAILED;
  scale<<<(count + 127) / 128, 128>>>(values, factor, count);
  cusolverMgDestroy(handle);
  return jax::cupti_version() > 0 ? XLA_FFI_DONE : XLA_FFI_FAILED;
}
}
