#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// One bucket of gradients, as a communication hook receives it.
struct GradBucket {
  std::size_t index = 0;               ///< in launch order
  bool is_last = false;                ///< the last bucket of this backward
  at::Tensor buffer;                   ///< flat: all gradients of the bucket; its content after `finish` is the result
  std::vector<at::Tensor> gradients;   ///< views into `buffer`, shaped as the parameters
  std::vector<at::Tensor> parameters;  ///< in the order of `gradients`
  std::vector<std::string> names;      ///< the parameters' names
};

/// The state that a hook keeps from step to step on this rank, by name.
using HookState = std::vector<std::pair<std::string, at::Tensor>>;

/// Makes a bucket's gradients equal on all ranks, in place of an averaging all-reduce. The hook itself divides by the
/// number of ranks. Every rank registers the same hook.
class CommunicationHook {
 public:
  virtual ~CommunicationHook() = default;
  /// Called when all gradients of the bucket are ready. Starts its communication and returns at once. Buckets arrive in
  /// one order on every rank. Returns null if there is nothing to wait for.
  virtual std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) = 0;
  /// Called after the work of `start` has ended, in the buckets' order. Starts a second exchange with the result of the
  /// first one and returns at once, so that the exchanges of all buckets overlap. Returns null if there is no second
  /// exchange.
  virtual std::shared_ptr<Work> start_second(GradBucket& bucket, Communicator& communicator);
  /// Called after the work of `start_second` has ended, too. Leaves the result in `bucket.buffer`.
  virtual void finish(GradBucket& bucket, Communicator& communicator);
  /// False for a hook that lets the ranks' models differ; then nothing else is exchanged either.
  virtual bool synchronizes() const { return true; }
  /// False for a hook that lets the ranks' models differ in some steps: in these steps `join` could not learn which
  /// ranks have run out of inputs.
  virtual bool allows_join() const { return true; }
  /// Called once, on every rank, when the hook is registered. It may make collective calls.
  virtual void attach(Communicator& communicator);
  /// Copies of this rank's state, which a resumed training needs. Empty for hooks without state.
  virtual HookState state() const { return {}; }
  /// Restores `state`, which a hook of this kind and with these options returned in a group of this size.
  /// @throws Error  here or in the next backward, if `state` does not fit
  virtual void load_state(const HookState& state);
};

/// Takes the tensor called `name` out of `state`; undefined if there is no such tensor.
at::Tensor take_out(HookState& state, const std::string& name);
/// @throws Error  naming `hook`: the saved state is not a state of this hook
[[noreturn]] void refuse_hook_state(const char* hook, const std::string& what);

/// Tells when error feedback must be discarded. A gradient that is infinite or NaN makes its step void: either the step
/// is skipped, as by GradScaler, and the hook's residual belongs to no update, or the training has diverged.
class ResidualGuard {
 public:
  /// Call it at `start` of a bucket. @return  whether the residual of its gradients is from a void step
  bool begins_after_void_step(const GradBucket& bucket) {
    if (bucket.index == 0) was_void_ = std::exchange(is_void_, false);
    return was_void_;
  }
  /// Marks the step as void: a gradient of this bucket, on any rank, is infinite or NaN. Must be called on every rank.
  /// Writes zeros to the gaps between the gradients in the bucket, because nothing else writes them and they are sent
  /// in the next step.
  void set_void(GradBucket& bucket);
  /// Whether the last step that ended was void.
  bool is_void() const { return is_void_; }

 private:
  bool is_void_ = false;
  bool was_void_ = false;
};

/// Averages gradients, as without a hook.
std::unique_ptr<CommunicationHook> allreduce_hook();
/// Halves the bytes: gradients divided by the number of ranks, cast to fp16, added up, cast back.
std::unique_ptr<CommunicationHook> fp16_compress_hook();
/// Halves the bytes with bf16, which has fp32's range.
std::unique_ptr<CommunicationHook> bf16_compress_hook();
/// A quarter of the bytes: 8 bits per number, in blocks with one factor each. The loss of precision is added to the
/// next step's gradient (error feedback; Karimireddy et al., 2019, arXiv:1901.09847). For gradients of at most fp32's
/// precision.
std::unique_ptr<CommunicationHook> int8_compress_hook();
/// Sends nothing, which shows the time of a step with free communication. The replicas drift apart.
std::unique_ptr<CommunicationHook> noop_hook();

/// Makes a built-in hook by name: allreduce, fp16, bf16, int8, powersgd (with PowerSGDOptions' defaults), noop.
/// @throws Error  for another name; it lists the known ones
std::unique_ptr<CommunicationHook> make_communication_hook(const std::string& name);

}  // namespace lockstep
