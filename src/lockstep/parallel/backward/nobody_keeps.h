#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/parallel/reducer/later_reduction.h"

namespace lockstep {

/// Keeps no bucket: so that a backward need not ask whether a fused update keeps some.
class NobodyKeeps : public LaterReduction {
 public:
  bool wants_every_backward() const override { return false; }
  void backward_begins() override {}
  void backward_left() override {}
  void gradient_arrived(std::size_t /*parameter*/) override {}
  bool starts_in_backward() const override { return false; }
  bool can_start(std::size_t /*bucket*/) override { return true; }
  std::shared_ptr<Work> start(std::size_t /*bucket*/) override { return nullptr; }
  void give_back(std::size_t /*parameter*/, const at::Tensor& /*late*/) override {}
  void backward_ended(bool /*all_started*/) override {}
  double take_waited_s() override { return 0; }
};

}  // namespace lockstep
