#pragma once

#include <c10/core/Device.h>

#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

/// The device of a replica: "cuda:1", or "cpu:1", which is a share of this process's cores. With "cpu:0" and "cpu:1"
/// two replicas have half of the cores each.
class ReplicaDevice {
 public:
  /// @param name  "cpu:K", "cuda:K"; "cpu" and "cuda" mean number 0
  /// @throws Error  for any other text
  ReplicaDevice(const char* name) : ReplicaDevice(std::string(name)) {}  // NOLINT: {"cpu:0", "cpu:1"} is a list of them
  ReplicaDevice(const std::string& name);                                // NOLINT
  /// A number as in PyTorch: CUDA device `index` if the process has CUDA, else CPU replica `index`.
  ReplicaDevice(int index);  // NOLINT

  bool is_cpu() const { return is_cpu_; }
  int index() const { return index_; }
  /// "cpu:1"
  std::string name() const;
  /// The device of the replica's tensors. All CPU replicas use the host's memory.
  c10::Device tensor_device() const;
  /// @param option  the option that named it, for the error
  /// @throws Error  naming the existing devices, if this is a CUDA device that the process does not see
  void require_present(const char* option = "device_ids") const;

  friend bool operator==(const ReplicaDevice& a, const ReplicaDevice& b) {
    return a.is_cpu_ == b.is_cpu_ && a.index_ == b.index_;
  }

 private:
  bool is_cpu_ = true;
  int index_ = 0;
};

/// Converts a vector of names or numbers into devices, for programs that have such a vector.
/// @throws Error  if an element is not a device
template <typename Name>
std::vector<ReplicaDevice> replica_devices_named(const std::vector<Name>& names) {
  return {names.begin(), names.end()};
}
/// True if a vector of `Name` can be converted into devices and is not a vector of devices already.
template <typename Name>
inline constexpr bool kNamesDevice =
    std::is_convertible_v<const Name&, ReplicaDevice> && !std::is_same_v<Name, ReplicaDevice>;

/// All CUDA devices; without CUDA, one CPU replica per core that this process may use.
std::vector<ReplicaDevice> all_replica_devices();

}  // namespace lockstep
