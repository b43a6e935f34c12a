#include <torch/extension.h>

void add_one(float *values, int count);

static long standard() { return __cplusplus; }

static void add(torch::Tensor values) { add_one(values.data_ptr<float>(), values.numel()); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("standard", &standard);
  module.def("add", &add);
}
