// Called from sum.cu: only the device linker can bring the two together.
#include <cstdio>

__device__ float square(float value) {
  // __FILE__: a build that leaks its folder shows it here.
  if (value != value) printf("%s:%d: not a number\n", __FILE__, __LINE__);
  return value * value;
}
