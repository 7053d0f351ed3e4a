#pragma once

#include <c10/core/Device.h>

#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

/// Where a replica runs: "cuda:1", or "cpu:1", which is a share of this process's cores. "cpu:0" and "cpu:1" are two
/// replicas that each have half of them.
class ReplicaDevice {
 public:
  /// @param name  "cpu:K", "cuda:K", or "cpu" and "cuda" for the first of them
  /// @throws Error  for any other text
  ReplicaDevice(const char* name) : ReplicaDevice(std::string(name)) {}  // NOLINT: {"cpu:0", "cpu:1"} is a list of them
  ReplicaDevice(const std::string& name);                                // NOLINT
  /// PyTorch's numbers: CUDA device `index` where there is CUDA, else CPU replica `index`.
  ReplicaDevice(int index);  // NOLINT

  bool is_cpu() const { return is_cpu_; }
  int index() const { return index_; }
  /// "cpu:1"
  std::string name() const;
  /// Where its tensors are: all CPU replicas have the host's memory.
  c10::Device tensor_device() const;
  /// @param option  that named it, for the error
  /// @throws Error  naming what there is, if this is a CUDA device that is not seen here
  void require_present(const char* option = "device_ids") const;

  friend bool operator==(const ReplicaDevice& a, const ReplicaDevice& b) {
    return a.is_cpu_ == b.is_cpu_ && a.index_ == b.index_;
  }

 private:
  bool is_cpu_ = true;
  int index_ = 0;
};

/// A list of names or numbers as devices: for those that a program has in a vector of its own.
/// @throws Error  if one is no device
template <typename Name>
std::vector<ReplicaDevice> replica_devices_named(const std::vector<Name>& names) {
  return {names.begin(), names.end()};
}
/// Whether a vector of these is a list of devices by another name.
template <typename Name>
inline constexpr bool kNamesDevice =
    std::is_convertible_v<const Name&, ReplicaDevice> && !std::is_same_v<Name, ReplicaDevice>;

/// All CUDA devices; without CUDA, one CPU replica per core that this process may use.
std::vector<ReplicaDevice> all_replica_devices();

}  // namespace lockstep
