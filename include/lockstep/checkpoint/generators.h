#pragma once

#include <ATen/core/Generator.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The random number generators of one rank: LibTorch's CPU generator, those of the rank's CUDA devices if it has any,
/// and any that are added. Not thread-safe.
class Generators {
 public:
  using Save = std::function<std::string()>;
  using Load = std::function<void(const std::string&)>;

  /// @param cuda_device  of this rank; negative: it has none. Generators of other devices are not touched.
  explicit Generators(int cuda_device = -1);
  /// @param cuda_devices  of this rank, the first one first: "cuda", and "cuda:N" for each other one. A checkpoint of
  /// fewer devices is loaded with a warning: the others keep their generators
  explicit Generators(const std::vector<int>& cuda_devices);

  /// Adds one of LibTorch's generators. @throws Error  if the name is taken
  void add(const std::string& name, at::Generator generator);
  /// Adds any other generator, by the bytes of its state. @throws Error  if the name is taken
  void add(const std::string& name, Save save, Load load);

  /// The state of all generators, as bytes: tensors of uint8.
  NamedTensors state() const;
  /// Sets all generators. @throws Error  if `state` lacks one of them, or a state is invalid
  void load_state(const NamedTensors& state);

 private:
  struct Entry {
    Save save;
    Load load;
    bool is_required;
  };
  void add(const std::string& name, at::Generator generator, bool is_required);
  void add(const std::string& name, Save save, Load load, bool is_required);

  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep
