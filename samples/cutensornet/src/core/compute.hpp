// What the GPU is asked for. Nothing here knows Python.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

struct Tensor {
    std::vector<std::int32_t> modes;
    const char *data;  // row-major; nullptr where only the shape counts
};

struct Network {
    cudaDataType_t type;                // CUDA_R_64F or CUDA_C_64F
    std::vector<std::int64_t> extents;  // of each mode
    std::vector<Tensor> inputs;
    std::vector<std::int32_t> output;  // modes

    std::size_t item_size() const { return type == CUDA_C_64F ? 16 : 8; }
    std::size_t bytes_of(const std::vector<std::int32_t> &modes) const;
};

// Floating-point operations that the best path takes which cuTensorNet finds; needs no GPU.
double count_flops(const Network &network);

// Writes the contracted tensor, row-major, as many bytes as `bytes_of(output)`.
void contract(const Network &network, char *result);

// Writes `rows` values in descending order, from a row-major matrix with rows <= columns.
void find_singular_values(
    cudaDataType_t type, std::int64_t rows, std::int64_t columns, const char *matrix, char *result);
