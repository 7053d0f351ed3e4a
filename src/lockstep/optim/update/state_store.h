#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/optim/update/update_run.h"

namespace lockstep {

/// Key of a parameter in LibTorch's own map of states, `Optimizer::state()`: a text up to 1.13, an address in later
/// versions.
using TorchStateKey = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>::key_type;

/// An optimizer's state for one parameter, or for the part of it that this rank updates.
struct StateSlot {
  at::Tensor parameter;
  bool is_part = false;    ///< only elements [begin, end), of a contiguous parameter
  std::int64_t begin = 0;  ///< in memory order
  std::int64_t end = 0;
  std::int64_t step = 0;  ///< updates made so far
  bool first = false;     ///< buffers were allocated, but not written yet
  /// Zero at first. Laid out as the parameter; one-dimensional for a part. Undefined until needed.
  std::array<at::Tensor, UpdateRun::kMaxBuffers> buffers;
  TorchStateKey torch_key{};
  bool shown = false;  ///< LibTorch's map has an object for this parameter, whose tensors are these buffers

  std::int64_t numel() const { return end - begin; }
};

/// The state of all parameters, in flat memory: buffers that are allocated together lie one behind the other, each at a
/// multiple of 64 bytes.
class StateStore {
 public:
  /// The parameter's slot; null if it has none.
  StateSlot* find(const at::Tensor& parameter);
  const StateSlot* find(const at::Tensor& parameter) const;
  /// The parameter's slot. A new slot holds the whole parameter.
  StateSlot& get(const at::Tensor& parameter);
  /// Cuts the slot to elements [begin, end), and keeps their state.
  StateSlot& make_part(const at::Tensor& parameter, std::int64_t begin, std::int64_t end);
  void erase(const at::Tensor& parameter) { slots_.erase(parameter.unsafeGetTensorImpl()); }

  /// Takes slots and the number of buffers that each needs. Allocates missing buffers in the order of the parameters'
  /// memory, so that neighbours there are neighbours here.
  static void allocate(std::vector<std::pair<StateSlot*, std::size_t>> wanted);

 private:
  std::unordered_map<const c10::TensorImpl*, StateSlot> slots_;  // references to elements stay valid
};

}  // namespace lockstep
