#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Parameters that several wrapped modules of one group have, such as an encoder under two heads. Each wrapper is
/// called for such a gradient, also in a backward of the other's output, and one of them averages it: the one whose
/// optimizer is fused, or else the one whose backward has begun first.
class SharedGradients {
 public:
  /// @param parameters  what one wrapper averages; the others know it from now on
  SharedGradients(const Communicator* group, const std::vector<at::Tensor>& parameters);
  ~SharedGradients();
  SharedGradients(const SharedGradients&) = delete;
  SharedGradients& operator=(const SharedGradients&) = delete;

  /// Another wrapper averages this gradient in the present backward.
  bool is_elsewhere(std::size_t parameter) const;
  /// Another wrapper has averaged this gradient, in whatever backward.
  bool was_elsewhere(std::size_t parameter) const;
  /// This wrapper averages all of its gradients that no other one has taken, until `backward` is gone.
  void take_all(const std::weak_ptr<void>& backward);
  /// This wrapper alone averages the gradient from now on.
  void keep(std::size_t parameter, bool keeps);

 private:
  struct Gradient;
  struct All;
  static All& all();

  std::vector<std::shared_ptr<Gradient>> gradients_;
};

}  // namespace lockstep
