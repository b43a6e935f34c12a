// What there is without CUDA too.
extern "C" int has_cuda() {
#ifdef BUILD_CUDA
  return 1;
#else
  return 0;
#endif
}
