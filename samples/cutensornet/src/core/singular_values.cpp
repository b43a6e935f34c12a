#include "checked.hpp"
#include "compute.hpp"

void find_singular_values(
    cudaDataType_t type, std::int64_t rows, std::int64_t columns, const char *matrix, char *result) {
    const std::size_t item = type == CUDA_C_64F ? 16 : 8;
    // What lies row by row is, column by column, the transposed matrix: its singular values are
    // the same, and it has the shape that gesvd wants, no fewer rows than columns.
    const auto m = columns, n = rows;
    DeviceMemory a(matrix, static_cast<std::size_t>(m * n) * item);
    DeviceMemory values(static_cast<std::size_t>(n) * sizeof(double));
    DeviceMemory info(sizeof(int));

    Owned<cusolverDnHandle_t, cusolverDnDestroy> handle;
    Owned<cusolverDnParams_t, cusolverDnDestroyParams> params;
    CHECKED(cusolverDnCreate, handle.out());
    CHECKED(cusolverDnCreateParams, params.out());
    std::size_t on_device = 0, on_host = 0;
    CHECKED(
        cusolverDnXgesvd_bufferSize, handle, params, 'N', 'N', m, n, type, a.get(), m, CUDA_R_64F,
        values.get(), type, nullptr, m, type, nullptr, n, type, &on_device, &on_host);
    DeviceMemory scratch(on_device);
    std::vector<char> host_scratch(on_host);
    CHECKED(
        cusolverDnXgesvd, handle, params, 'N', 'N', m, n, type, a.get(), m, CUDA_R_64F,
        values.get(), type, nullptr, m, type, nullptr, n, type, scratch.get(), on_device,
        host_scratch.data(), on_host, static_cast<int *>(info.get()));

    int status = 0;
    info.copy_to(&status);
    if (status != 0) throw Failure("cusolverDnXgesvd", "info " + std::to_string(status));
    values.copy_to(result);
}
