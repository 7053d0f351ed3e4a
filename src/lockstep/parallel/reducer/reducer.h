#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/backward/backward.h"
#include "lockstep/parallel/backward/gradient_keeper.h"
#include "lockstep/parallel/backward/make_parts.h"
#include "lockstep/parallel/reducer/backward_watcher.h"
#include "lockstep/parallel/reducer/captured_gradients.h"
#include "lockstep/parallel/reducer/gradient_hooks.h"
#include "lockstep/parallel/reducer/output_use.h"
#include "lockstep/parallel/reducer/plain_calls.h"

namespace lockstep {

/// Averages gradients over the ranks while backward runs. It follows the program from forward to the end of backward,
/// by hooks of autograd, and decides which backwards are synchronised; what such a backward does is in `Backward`.
///
/// A hook behind each parameter's gradient accumulator marks it ready; a bucket whose parameters are all ready is
/// reduced while backward continues. Buckets are launched in one order on every rank, the last one at the end of
/// backward.
///
/// A parameter may get other memory of the same shape and type (torch::load): the hooks follow.
///
/// Collective: every rank runs the same number of synchronised backwards. Not for several threads at once, but the
/// autograd engine may call from its own threads.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// @param parameters  see there; the same on every rank
  static std::shared_ptr<Reducer> make(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                                       const ReducerOptions& options);
  /// Removes the hooks from the parameters. The gradients stay. From then on, a backward through a watched output is an
  /// Error.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Call it before each forward that a backward may follow. @param synchronise  false: gradients only accumulate here
  /// @param trains  the module is in training: a backward is expected
  /// @throws Error  if an exception cut off the previous backward after buckets were launched
  void prepare(bool synchronise, bool trains);
  /// Call it on the outputs of forward: the end of the backward that starts there is the end of the step.
  void watch_output(const at::Tensor& output);

  /// As PlainCalls'.
  void watch_plain_calls(std::function<void()> at_begin, std::function<void()> at_end, std::function<bool()> is_wanted);
  /// From now on, both are called in each synchronised backward: forwards past the wrapper are the rule.
  void follow_backward();
  bool follows_backward() const { return plain_calls_.are_rule(); }
  /// The program reaches for the module itself, and may call its forward.
  void note_access();
  /// For slices, whose backwards are not synchronised.
  /// @param arrived  called when backward has added to a parameter's gradient
  void watch_arrivals(std::function<void(std::size_t parameter)> arrived) { arrived_ = std::move(arrived); }

  /// As Backward's.
  void register_hook(std::unique_ptr<CommunicationHook> hook) { backward_.register_hook(std::move(hook)); }
  /// Takes part in one step of the other ranks without gradients of its own.
  /// @return  true if no rank has inputs left
  bool shadow_backward();
  /// From now on, backward leaves these buckets to `keeper`. What is given must outlive the time until `take_back`.
  /// @param watcher  is told of every backward; null if nobody has to be told
  void hand_over(const std::vector<std::size_t>& buckets, GradientKeeper& keeper, BackwardWatcher* watcher);
  /// Backward reduces all buckets again, in their parameters' dtype. Not collective. @param moves  false: buckets stay
  /// where they are, because nothing follows
  void take_back(bool moves = true);
  /// As GradientBuckets::use_group_memory.
  void use_group_memory();
  /// As Backward's.
  void drop_gradients();

  Backward& backward() { return backward_; }

 private:
  Reducer(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
          const ReducerOptions& options);
  void install_hooks();
  void follow_parameters();
  void report_captured_gradients();
  void on_gradient(std::size_t index);
  void on_sparse_gradient(std::size_t index);
  void on_tripwire(const GradientHooks& hooks, std::size_t index);
  void set_tripwires();
  void watch_accumulations();
  void watch_local(const at::Tensor& output);
  void notice_plain_call();
  void tell_watcher();
  void drop_if_cut_off();
  void begin_backward();
  void reach_parameters();
  void finish_backward();

  Backward backward_;
  GradientHooks hooks_, sparse_hooks_;
  PlainCalls plain_calls_;
  std::function<void(std::size_t)> arrived_;  // empty without slices

  // The lock of `backward_` guards what follows.
  std::weak_ptr<void> engine_task_;            // of this backward: expires when the engine drops it
  BackwardWatcher* watcher_ = nullptr;         // of every backward, or nobody
  std::weak_ptr<void> watched_task_;           // of the backward of which it knows
  std::weak_ptr<void> local_task_;             // of a backward that belongs to a forward in no_sync
  std::optional<CapturedGradients> captured_;  // empty if this rank is alone, and with slices
  bool is_awaited_ = false;                    // a synchronised forward was made, and no backward has begun
  bool synchronise_ = true;
  bool trains_ = true;
  std::weak_ptr<OutputUse> forward_;  // the last synchronised one
};

}  // namespace lockstep
