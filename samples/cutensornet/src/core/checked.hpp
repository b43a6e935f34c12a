// Every status becomes an exception, and every resource has an owner that gives it back.
#pragma once

#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <cutensornet.h>

#include <cstddef>
#include <stdexcept>
#include <string>

// A call into CUDA that failed; becomes cutensornet_sample.CudaError.
class Failure : public std::runtime_error {
  public:
    Failure(const char *function, const std::string &reason)
        : std::runtime_error(std::string(function) + ": " + reason) {}
};

inline void check(cudaError_t status, const char *function) {
    if (status != cudaSuccess) throw Failure(function, cudaGetErrorString(status));
}

inline void check(cutensornetStatus_t status, const char *function) {
    if (status != CUTENSORNET_STATUS_SUCCESS) {
        throw Failure(function, cutensornetGetErrorString(status));
    }
}

inline void check(cusolverStatus_t status, const char *function) {
    // cuSOLVER has no function that gives a text; cusolver_common.h lists the numbers.
    if (status != CUSOLVER_STATUS_SUCCESS) {
        throw Failure(function, "cusolverStatus_t " + std::to_string(static_cast<int>(status)));
    }
}

#define CHECKED(function, ...) check(function(__VA_ARGS__), #function)

// A handle that is destroyed with its owner.
template <typename Handle, auto destroy>
class Owned {
  public:
    Owned() = default;
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    ~Owned() {
        if (handle_) destroy(handle_);
    }
    Handle *out() { return &handle_; }
    operator Handle() const { return handle_; }

  private:
    Handle handle_{};
};

// Memory of the GPU.
class DeviceMemory {
  public:
    explicit DeviceMemory(std::size_t size) : size_(size) { CHECKED(cudaMalloc, &start_, size); }
    DeviceMemory(const void *source, std::size_t size) : DeviceMemory(size) {
        CHECKED(cudaMemcpy, start_, source, size, cudaMemcpyHostToDevice);
    }
    DeviceMemory(const DeviceMemory &) = delete;
    DeviceMemory &operator=(const DeviceMemory &) = delete;
    ~DeviceMemory() { cudaFree(start_); }
    void *get() const { return start_; }
    // Waits for the GPU; what failed there is reported here.
    void copy_to(void *target) const {
        CHECKED(cudaMemcpy, target, start_, size_, cudaMemcpyDeviceToHost);
    }

  private:
    void *start_ = nullptr;
    std::size_t size_;
};
