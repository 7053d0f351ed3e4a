#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/detail/tensor/tensor_part.h"
#include "lockstep/parallel/fuse_options.h"

namespace lockstep {

class FusedUpdate;

/// An optimizer's step whose work the ranks share: what DistributedDataParallel::fuse returns.
///
///     const lockstep::FusedStep fused = ddp.fuse(optimizer);
///     std::cout << to_string(fused.mode());
///     fused.unfuse();
///
/// A handle: copies refer to the same step, which belongs to the DistributedDataParallel and is in force until
/// `unfuse`, or until the DistributedDataParallel or the optimizer is destroyed. A handle may be dropped, and
/// `ddp.fused_step()` gives another one. If no step is in force, `mode` is Off, and the calls do nothing.
class FusedStep {
 public:
  FusedStep() = default;  ///< of no step

  FuseMode mode() const;
  /// Why `fuse` changed nothing, or what it left out; else empty.
  const std::string& reason() const { return reason_; }

  /// Gives the optimizer its whole state and its own step again, and each rank weights of its own. Collective.
  void unfuse() const;
  /// As `unfuse`, for the end of a training: each rank has weights of its own, and the optimizer keeps this rank's part
  /// of its state, so its `step` throws an Error. It needs memory for the weights, and none for the whole state.
  /// Collective.
  void unfuse_weights() const;

  /// Gives this rank weights of its own, if ranks share them. Operations of LibTorch that write a weight do so by
  /// themselves, for that weight; call it before writing by address (`data_ptr`), or by hand in a training that
  /// survives lost ranks. The next step compares the ranks' weights, bit for bit, and lets the ranks share them again.
  /// Needs memory for the weights until then. Not collective. Does nothing if ranks share no weights.
  /// @throws Error  between backward and step
  void own_weights() const;

  /// With FuseOptions::stage 3: gathers all weights, so that this rank can read them outside of forward and backward
  /// until `reshard` or the next step, in memory for all of them. Values that the program writes meanwhile, the same on
  /// every rank, are used from then on, as after torch::load; the next step compares them. Collective. Without stage 3
  /// it does nothing. @return  false if it has done nothing: without stage 3, or if the weights are there already
  bool unshard() const;
  /// Frees the weights again. Not collective.
  void reshard() const;
  /// With FuseOptions::stage 3: the elements that this rank keeps of each fused parameter, perhaps none; views of its
  /// shards, for saving without `unshard`; copies of what the program has written to gathered ones. The ranks' parts
  /// together have each element once. Empty without stage 3. Not collective.
  TensorParts weight_parts() const;
  /// Lets `write` give new values to all elements of `weight_parts()`, from a checkpoint for example, in place of all
  /// weights and of what was written by hand. Every rank does so, between steps; a backward of a forward before is an
  /// error of LibTorch's, as for every weight that was written in between. Without stage 3 it writes nothing.
  /// @throws Error  between backward and step
  void write_weight_parts(const std::function<void(const TensorParts&)>& write) const;
  /// The largest number of bytes of weights that this rank has held at a time since `fuse`, its shares included, and
  /// layers in full that it holds together with the other ranks of its host. 0 without stage 3.
  std::int64_t peak_weight_bytes() const;

  /// Whether `grad` of some parameter stands for a gradient that this rank has sent to its owner (FuseOptions::stage
  /// 2).
  bool has_sent_gradients() const;

  /// `fuse` returned the mode until 0.2.
  [[deprecated("fuse returns a FusedStep: call mode()")]] operator FuseMode() const { return mode(); }

 private:
  friend class DistributedReplica;
  using Held = std::unique_ptr<FusedUpdate>;
  FusedStep(const std::shared_ptr<Held>& held, std::string reason);
  FusedUpdate* update() const;

  std::weak_ptr<Held> held_;  // by the DistributedDataParallel, because the update uses its gradients
  std::string reason_;
};

}  // namespace lockstep
