#pragma once

#include <ATen/core/Generator.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The random number generators of one rank: LibTorch's own of the CPU, that of its CUDA device if it has one, and
/// whatever else is added. Not thread-safe.
class Generators {
 public:
  using Save = std::function<std::string()>;
  using Load = std::function<void(const std::string&)>;

  /// @param cuda_device  of this rank; negative for none. Others' generators are not touched.
  explicit Generators(int cuda_device = -1);

  /// Adds one of LibTorch's. @throws Error  if the name is taken
  void add(const std::string& name, at::Generator generator);
  /// Adds any other, by the bytes of its state. @throws Error  if the name is taken
  void add(const std::string& name, Save save, Load load);

  /// The state of all, as bytes: tensors of uint8.
  NamedTensors state() const;
  /// Sets all of them. @throws Error  if one has no state in `state`, or a state is refused
  void load_state(const NamedTensors& state);

 private:
  struct Entry {
    Save save;
    Load load;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep
