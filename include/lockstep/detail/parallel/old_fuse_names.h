#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/detail/parallel/fused_step.h"

namespace lockstep::detail {

/// Members that DistributedDataParallel had until 0.2, and that FusedStep has now. 0.4 does without them.
/// @tparam Ddp  the class derived from this, which has `fused_step()`
template <typename Ddp>
class OldFuseNames {
 public:
  [[deprecated("use FusedStep::mode, of what fuse returns")]] FuseMode fuse_mode() const { return step().mode(); }
  [[deprecated("use FusedStep::reason, of what fuse returns")]] std::string fuse_reason() const {
    return step().reason();
  }
  [[deprecated("use FusedStep::unfuse, of what fuse returns")]] void unfuse() { step().unfuse(); }
  [[deprecated("use FusedStep::unfuse_weights, of what fuse returns")]] void unfuse_weights() {
    step().unfuse_weights();
  }
  [[deprecated("use FusedStep::own_weights, of what fuse returns")]] void own_weights() { step().own_weights(); }
  [[deprecated("use FusedStep::unshard, of what fuse returns")]] bool unshard() { return step().unshard(); }
  [[deprecated("use FusedStep::reshard, of what fuse returns")]] void reshard() { step().reshard(); }
  [[deprecated("use FusedStep::weight_parts, of what fuse returns")]] TensorParts weight_parts() {
    return step().weight_parts();
  }
  [[deprecated("use FusedStep::write_weight_parts, of what fuse returns")]] void write_weight_parts(
      const std::function<void(const TensorParts&)>& write) {
    step().write_weight_parts(write);
  }
  [[deprecated("use FusedStep::peak_weight_bytes, of what fuse returns")]] std::int64_t peak_weight_bytes() const {
    return step().peak_weight_bytes();
  }
  [[deprecated("use FusedStep::has_sent_gradients, of what fuse returns")]] bool has_sent_gradients() const {
    return step().has_sent_gradients();
  }

 protected:
  OldFuseNames() = default;
  OldFuseNames(const OldFuseNames&) = default;
  OldFuseNames& operator=(const OldFuseNames&) = default;
  ~OldFuseNames() = default;

 private:
  FusedStep step() const { return static_cast<const Ddp&>(*this).fused_step(); }
};

}  // namespace lockstep::detail
