// What CUDA offers to this process: asked of the driver itself, so that a LibTorch without CUDA can say it, too.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

struct CudaDevice {
  std::string name;
  std::int64_t memory_bytes = 0;
  std::string compute_capability;  ///< as "9.0"
  std::vector<int> peers;          ///< devices whose memory this one reads without a copy through the host
};

/// Empty texts stand for what is not there.
struct CudaFacts {
  std::string driver;           ///< the newest CUDA that the driver serves, as "13.2"
  std::string kernel_module;    ///< version of the driver's module of the kernel, as "580.95.05"
  std::string runtime;          ///< of the libcudart that LibTorch has loaded, as "13.2"
  std::string nccl;             ///< of the libnccl that this program has loaded, as "2.30.7"
  bool has_torch_cuda = false;  ///< LibTorch was built with CUDA
  std::vector<CudaDevice> devices;
  std::string why_none;  ///< if there is no device
};

/// Makes no context, and takes no memory of a device.
CudaFacts cuda_facts();

/// The devices on which this process has a context, which takes memory there.
std::vector<int> devices_with_context();

/// The facts as `lockstep env --json` shows them.
nlohmann::ordered_json cuda_json(const CudaFacts& facts);

/// "NVIDIA H100 80GB HBM3, 79.1 GiB, compute capability 9.0, reads the memory of 1, 2, 3"
std::string device_text(const CudaDevice& device);

/// What is wrong with these facts together: devices that this LibTorch cannot use, a driver that is too old for it.
/// Nothing if nothing is.
std::string cuda_warning(const CudaFacts& facts);

}  // namespace lockstep
