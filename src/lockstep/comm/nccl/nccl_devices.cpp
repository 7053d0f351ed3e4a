#include "lockstep/comm/nccl/nccl_devices.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <numeric>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/failure/named_rank.h"
#include "lockstep/comm/mesh/bring_up/bring_up.h"

namespace lockstep {
namespace {

const char* const kDevicePrefix = "nccl/device/";

// "0000:3b:00.0": equal for all processes of a host, however CUDA_VISIBLE_DEVICES numbers the devices.
std::string bus_address(const Membership& membership, int device) {
  char text[32] = {};
  const cudaError_t status = cudaDeviceGetPCIBusId(text, sizeof(text), device);
  if (status != cudaSuccess) {
    throw Error(fmt::format("the address of CUDA device {} is unknown: {}", device, cudaGetErrorString(status)),
                membership.where(), "check the device with nvidia-smi");
  }
  return text;
}

std::string nccl_version() {
  int version = 0;
  ncclGetVersion(&version);
  return std::to_string(version);
}

}  // namespace

int current_cuda_device(const Membership& membership) {
  if (c10::cuda::device_count() == 0) {
    throw Error("engine nccl needs a CUDA device for each rank, but this process sees none", membership.where(),
                "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use another engine: gloo, or leave the engine out");
  }
  return c10::cuda::current_device();
}

void check_devices_differ(const Membership& membership, int device, Deadline deadline) {
  const std::string mine = bus_address(membership, device) + ' ' + nccl_version();
  membership.store->set(kDevicePrefix + std::to_string(membership.rank), mine);
  std::vector<int> all(static_cast<std::size_t>(membership.world_size));
  std::iota(all.begin(), all.end(), 0);
  wait_for_ranks(membership, all, kDevicePrefix, deadline);
  std::vector<std::string> devices;
  std::vector<std::string> versions;
  for (const int rank : all) {
    const std::string text = membership.store->get(kDevicePrefix + std::to_string(rank), deadline);
    const std::size_t space = text.find(' ');
    devices.push_back(text.substr(0, space));
    versions.push_back(space == std::string::npos ? "" : text.substr(space + 1));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (versions[i] != versions[0]) {
      throw Error(fmt::format("{} runs version {} of NCCL, but {} runs version {}", name_of(membership, 0), versions[0],
                              name_of(membership, all[i]), versions[i]),
                  membership.where(), "run the same build with the same libraries on every host");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (devices[i] != devices[j] || membership.peers[i].host_id != membership.peers[j].host_id) continue;
      throw Error(fmt::format("{} and {} are both on the CUDA device at {}: NCCL takes one rank for each device",
                              name_of(membership, all[j]), name_of(membership, all[i]), devices[i]),
                  membership.where(),
                  "start as many ranks as there are devices, and let each use that of its LOCAL_RANK "
                  "(use_local_device()); or keep the tensors on the CPU");
    }
  }
}

void refuse_capture(const std::string& operation, const Membership& membership, c10::Device device) {
  auto status = cudaStreamCaptureStatusNone;
  cudaStream_t const current = c10::cuda::getCurrentCUDAStream(device.index()).stream();
  const cudaError_t answer = cudaStreamIsCapturing(current, &status);
  // The legacy default stream takes part in every capture, and answers with an error then.
  const bool is_implicit = answer == cudaErrorStreamCaptureImplicit;
  if (answer != cudaSuccess) cudaGetLastError();
  if (!is_implicit && (answer != cudaSuccess || status == cudaStreamCaptureStatusNone)) return;
  throw Error(operation + " while a CUDA graph is being captured: engine nccl works outside of graphs only",
              membership.where(),
              "capture forward and backward without it (no_sync, or the module without its wrapper), and average the "
              "gradients between replays");
}

}  // namespace lockstep
