// Called from ops.cu: only the device linker can bring the two together.
#include <cstdio>

__device__ float dequantize(signed char value, float scale) {
  // __FILE__: a build that leaks its folder shows it here.
  if (scale != scale) printf("%s:%d: not a number\n", __FILE__, __LINE__);
  return value * scale;
}
