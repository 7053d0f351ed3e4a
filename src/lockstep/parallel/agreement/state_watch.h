#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// Finds tensors of wrapped modules that steps change although a loop's state does not have them: a process that joins
/// would have other values, and a step that is made again would change them twice. It looks at the version of
/// parameters, and at the values of buffers, because kernels of batch normalisation write past the version counter.
class StateWatch {
 public:
  /// The process's own from now on, unless it has one. @param kept  the state's tensors
  explicit StateWatch(std::vector<at::Tensor> kept);
  ~StateWatch();
  StateWatch(const StateWatch&) = delete;
  StateWatch& operator=(const StateWatch&) = delete;

  /// The watch of this process's loop that survives lost ranks; null without such a loop.
  static StateWatch* current();

  /// A module is wrapped for the group, and not in a step.
  void add(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers);
  /// The ranks have changed, and modules are wrapped again.
  void start_over();
  /// Before a step that is looked at.
  void take();
  /// After it. @return  the name of a tensor that has changed since, and that the state has not; empty if none has
  std::string changed();

 private:
  struct Watched {
    NamedTensor named;
    bool is_buffer;
    std::uint64_t value;  // version, or digest, before the step
  };
  bool keeps(const at::Tensor& tensor) const;

  std::vector<at::Tensor> kept_;
  std::vector<Watched> wrapped_;
  bool is_taking_ = false;
  std::vector<std::size_t> others_;  // of these, which the state has not
};

}  // namespace lockstep
