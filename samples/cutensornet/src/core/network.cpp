#include "checked.hpp"
#include "compute.hpp"

#include <algorithm>
#include <list>

namespace {

constexpr std::uint64_t kWorkspaceLimit = std::uint64_t{1} << 30;  // bytes that a path may need

using Library = Owned<cutensornetHandle_t, cutensornetDestroy>;
using Descriptor = Owned<cutensornetNetworkDescriptor_t, cutensornetDestroyNetwork>;
using Config =
    Owned<cutensornetContractionOptimizerConfig_t, cutensornetDestroyContractionOptimizerConfig>;
using Path =
    Owned<cutensornetContractionOptimizerInfo_t, cutensornetDestroyContractionOptimizerInfo>;
using Workspace = Owned<cutensornetWorkspaceDescriptor_t, cutensornetDestroyWorkspaceDescriptor>;

std::vector<std::int64_t> extents_of(
    const Network &network, const std::vector<std::int32_t> &modes) {
    std::vector<std::int64_t> found;
    for (auto mode : modes) found.push_back(network.extents[mode]);
    return found;
}

// cuTensorNet's own default is column-major.
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t> &extents) {
    std::vector<std::int64_t> strides(extents.size());
    std::int64_t step = 1;
    for (auto index = extents.size(); index-- > 0; step *= extents[index]) strides[index] = step;
    return strides;
}

// A network and the path that contracts it; no data yet.
struct Planned {
    Library library;  // destroyed last
    Descriptor network;
    Path path;
    std::vector<std::int64_t> ids;  // of the inputs

    explicit Planned(const Network &wanted) {
        CHECKED(cutensornetCreate, library.out());
        CHECKED(cutensornetCreateNetwork, library, network.out());
        for (const auto &input : wanted.inputs) append(wanted, input);
        CHECKED(
            cutensornetNetworkSetOutputTensor, library, network,
            static_cast<std::int32_t>(wanted.output.size()), wanted.output.data(), wanted.type);
        find_path();
    }

  private:
    void append(const Network &wanted, const Tensor &input) {
        const auto extents = extents_of(wanted, input.modes);
        ids.emplace_back();
        CHECKED(
            cutensornetNetworkAppendTensor, library, network,
            static_cast<std::int32_t>(extents.size()), extents.data(), input.modes.data(), nullptr,
            wanted.type, &ids.back());
    }

    void find_path() {
        Config config;
        CHECKED(cutensornetCreateContractionOptimizerConfig, library, config.out());
        CHECKED(cutensornetCreateContractionOptimizerInfo, library, network, path.out());
        CHECKED(
            cutensornetContractionOptimize, library, network, config, kWorkspaceLimit, path);
    }
};

std::size_t scratch_size(const Planned &plan, const Workspace &workspace) {
    CHECKED(
        cutensornetWorkspaceComputeContractionSizes, plan.library, plan.network, plan.path,
        workspace);
    std::int64_t size = 0;
    CHECKED(
        cutensornetWorkspaceGetMemorySize, plan.library, workspace,
        CUTENSORNET_WORKSIZE_PREF_RECOMMENDED, CUTENSORNET_MEMSPACE_DEVICE,
        CUTENSORNET_WORKSPACE_SCRATCH, &size);
    // A workspace of no size counts as none, and none is refused.
    return static_cast<std::size_t>(std::max<std::int64_t>(size, 1));
}

}  // namespace

std::size_t Network::bytes_of(const std::vector<std::int32_t> &modes) const {
    std::size_t size = item_size();
    for (auto extent : extents_of(*this, modes)) size *= static_cast<std::size_t>(extent);
    return size;
}

double count_flops(const Network &network) {
    Planned plan(network);
    double flops = 0;
    CHECKED(
        cutensornetContractionOptimizerInfoGetAttribute, plan.library, plan.path,
        CUTENSORNET_CONTRACTION_OPTIMIZER_INFO_FLOP_COUNT, &flops, sizeof flops);
    return flops;
}

void contract(const Network &network, char *result) {
    // First of all: it says plainly when there is no GPU or no driver.
    DeviceMemory output(network.bytes_of(network.output));
    std::list<DeviceMemory> inputs;
    Planned plan(network);
    for (std::size_t index = 0; index < network.inputs.size(); ++index) {
        const auto &input = network.inputs[index];
        inputs.emplace_back(input.data, network.bytes_of(input.modes));
        CHECKED(
            cutensornetNetworkSetInputTensorMemory, plan.library, plan.network, plan.ids[index],
            inputs.back().get(), row_major_strides(extents_of(network, input.modes)).data());
    }
    CHECKED(
        cutensornetNetworkSetOutputTensorMemory, plan.library, plan.network, output.get(),
        row_major_strides(extents_of(network, network.output)).data());

    Workspace workspace;
    CHECKED(cutensornetCreateWorkspaceDescriptor, plan.library, workspace.out());
    const auto size = scratch_size(plan, workspace);
    DeviceMemory scratch(size);
    CHECKED(
        cutensornetWorkspaceSetMemory, plan.library, workspace, CUTENSORNET_MEMSPACE_DEVICE,
        CUTENSORNET_WORKSPACE_SCRATCH, scratch.get(), static_cast<std::int64_t>(size));
    CHECKED(cutensornetNetworkPrepareContraction, plan.library, plan.network, workspace);
    CHECKED(
        cutensornetNetworkContract, plan.library, plan.network, /*accumulateOutput=*/0, workspace,
        /*sliceGroup=*/nullptr, /*stream=*/nullptr);
    output.copy_to(result);
}
