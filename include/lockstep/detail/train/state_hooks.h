#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The state that Accelerator::save_state is about to write; a hook may read and change it. The main process writes it;
/// on other ranks both members are empty. `weights` is empty if ranks save parts: with StateDictType::Sharded, and if a
/// model's weights are in shards (stage 3). Weights that a hook gives are then an Error.
struct StateToSave {
  std::vector<NamedTensors>& weights;         ///< of each prepared model, in the order of `prepare`; may be replaced
  std::map<std::string, std::string>& files;  ///< further files by name, as bytes
};

/// The state that Accelerator::load_state is about to read.
struct StateToLoad {
  const std::string& folder;           ///< the checkpoint, verified
  std::vector<NamedTensors>& weights;  ///< of each prepared model; a hook that loads a model itself clears its entry
};

using SaveStatePreHook = std::function<void(StateToSave&)>;
using LoadStatePreHook = std::function<void(StateToLoad&)>;

/// A list of functions that are called in the order of their registration.
template <typename Hook>
class HookList {
 public:
  std::uint64_t add(Hook hook) {
    hooks_.emplace(next_, std::move(hook));
    return next_++;
  }
  void remove(std::uint64_t id) { hooks_.erase(id); }
  template <typename Argument>
  void call(Argument& argument) const {
    for (const auto& [id, hook] : hooks_) hook(argument);
  }

 private:
  std::map<std::uint64_t, Hook> hooks_;
  std::uint64_t next_ = 0;
};

/// Removes a registered hook: PyTorch's RemovableHandle. It may be discarded, and may safely outlive the accelerator.
class RemovableHandle {
 public:
  template <typename Hook>
  RemovableHandle(const std::shared_ptr<HookList<Hook>>& hooks, std::uint64_t id)
      : remove_([weak = std::weak_ptr<HookList<Hook>>(hooks), id] {
          if (const auto list = weak.lock()) list->remove(id);
        }) {}
  void remove() { remove_(); }

 private:
  std::function<void()> remove_;
};

}  // namespace lockstep
