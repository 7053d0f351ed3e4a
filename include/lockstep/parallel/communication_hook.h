#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// One bucket, as a communication hook sees it.
struct GradBucket {
  std::size_t index = 0;              ///< in launch order
  bool is_last = false;               ///< of this backward
  at::Tensor buffer;                  ///< flat: all gradients of the bucket; what it holds after `finish` is the result
  std::vector<at::Tensor> gradients;  ///< views into `buffer`, shaped as the parameters
  std::vector<at::Tensor> parameters;  ///< in the same order
  std::vector<std::string> names;      ///< of the parameters
};

/// What a hook keeps from step to step on this rank, by name.
using HookState = std::vector<std::pair<std::string, at::Tensor>>;

/// How a bucket's gradients become the same on all ranks, in place of an averaging all-reduce. The hook divides by the
/// number of ranks itself. Every rank registers the same hook.
class CommunicationHook {
 public:
  virtual ~CommunicationHook() = default;
  /// Called when all gradients of the bucket are there: starts its communication and returns at once. Buckets come in
  /// the same order on every rank. Null where there is nothing to wait for.
  virtual std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) = 0;
  /// Called after that work has ended, in the buckets' order: starts a second exchange of what the first one brought,
  /// and returns at once, so that those of all buckets are under way together. Null where there is none.
  virtual std::shared_ptr<Work> start_second(GradBucket& bucket, Communicator& communicator);
  /// Called after that work, too, has ended: leaves the result in `bucket.buffer`.
  virtual void finish(GradBucket& bucket, Communicator& communicator);
  /// False for a hook that leaves the ranks apart; then nothing else is exchanged either.
  virtual bool synchronizes() const { return true; }
  /// False for a hook that leaves the ranks apart in some steps: `join` could not learn there who has run out of
  /// inputs.
  virtual bool allows_join() const { return true; }
  /// Called once, on every rank, when the hook is registered: collective calls may be made here.
  virtual void attach(Communicator& communicator);
  /// What a training that is stopped and resumed needs of this rank's hook: copies. Empty for hooks that keep nothing.
  virtual HookState state() const { return {}; }
  /// Takes it up, on a hook of the same kind and options in a group of the same size.
  /// @throws Error  here or in the next backward, if `state` does not fit
  virtual void load_state(const HookState& state);
};

/// Takes the tensor of that name out of `state`; undefined where there is none.
at::Tensor take_out(HookState& state, const std::string& name);
/// @throws Error  naming `hook`: what was saved is not its state
[[noreturn]] void refuse_hook_state(const char* hook, const std::string& what);

/// When error feedback must forget. A gradient that is infinite or NaN makes its step void: either it is left out, as
/// GradScaler does, and then what the hook kept of it belongs to no update, or the training has diverged.
class ResidualGuard {
 public:
  /// At `start` of a bucket. @return  whether what is kept of its gradients is of a void step
  bool begins_after_void_step(const GradBucket& bucket) {
    if (bucket.index == 0) was_void_ = std::exchange(is_void_, false);
    return was_void_;
  }
  /// A gradient of this bucket, on any rank, is infinite or NaN. The same on every rank. Writes zeros to what lies
  /// between the gradients in the bucket: nothing else does, and what is there is sent with the next step.
  void set_void(GradBucket& bucket);
  /// The step that has ended last was void.
  bool is_void() const { return is_void_; }

 private:
  bool is_void_ = false;
  bool was_void_ = false;
};

/// Averages, as without a hook.
std::unique_ptr<CommunicationHook> allreduce_hook();
/// Halves the bytes: gradients divided by the number of ranks, cast to fp16, added up, cast back.
std::unique_ptr<CommunicationHook> fp16_compress_hook();
/// The same in bf16, which keeps fp32's range.
std::unique_ptr<CommunicationHook> bf16_compress_hook();
/// A quarter of the bytes: 8 bits a number, in blocks with a factor each; what that loses is added to the next step's
/// gradient (error feedback; Karimireddy et al., 2019, arXiv:1901.09847). For gradients up to fp32's precision.
std::unique_ptr<CommunicationHook> int8_compress_hook();
/// Sends nothing. Shows how fast a step would be with free communication; the replicas drift apart.
std::unique_ptr<CommunicationHook> noop_hook();

/// A built-in hook by name: allreduce, fp16, bf16, int8, powersgd (with PowerSGDOptions' defaults), noop.
/// @throws Error  that lists these names
std::unique_ptr<CommunicationHook> make_communication_hook(const std::string& name);

}  // namespace lockstep
