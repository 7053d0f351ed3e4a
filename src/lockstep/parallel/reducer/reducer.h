#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/reduced_elements.h"
#include "lockstep/detail/parallel/step_statistics.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/agreement/replica_watch.h"
#include "lockstep/parallel/agreement/step_position.h"
#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"
#include "lockstep/parallel/backward/make_parts.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/reducer/backward_trace.h"
#include "lockstep/parallel/reducer/captured_gradients.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/reducer/gradient_hooks.h"
#include "lockstep/parallel/reducer/later_reduction.h"
#include "lockstep/parallel/reducer/output_use.h"
#include "lockstep/parallel/reducer/static_graph.h"
#include "lockstep/parallel/shared_gradients.h"
#include "lockstep/parallel/uneven_inputs.h"

namespace lockstep {

struct ReducerOptions {
  BucketCaps bucket_caps;
  bool static_graph = false;
  bool gets_memory_later = false;  ///< see GradientBuckets::Options
  bool counts_updates = false;     ///< with slices: the ranks compare the number of the update
  int module = 0;                  ///< WrappedModule::number
};

/// Decides what is sent when, so that gradients are averaged over the ranks while backward runs.
///
/// A hook behind each parameter's gradient accumulator marks it ready; a bucket whose parameters are all ready is
/// reduced while backward continues. Buckets are launched in one order on every rank, the last one at the end of
/// backward.
///
/// Parameters without a gradient in this backward count as ready at its end, so unused parameters need no flag: their
/// `grad` stays undefined if no rank has one, and is the average over all ranks otherwise. A gradient that arrives
/// after its bucket was launched (re-entrant backward of a shared parameter) is kept apart and added in a second round.
///
/// A parameter may get other memory of the same shape and type (torch::load): the hooks follow.
///
/// Collective: every rank runs the same number of synchronised backwards. Not for several threads at once, but the
/// autograd engine may call from its own threads.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// @param parameters  see there; the same on every rank
  static std::shared_ptr<Reducer> make(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                                       ReducerOptions options);
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

  /// A synchronised backward that no `prepare` and no watched output has announced belongs to a forward past the
  /// wrapper: of the module itself, or of one of its members.
  /// @param at_begin  called on every rank at the beginning of each such backward; may throw
  /// @param at_end    called on every rank at the end of each
  /// @param is_wanted  false in no_sync: then such a backward is not synchronised, if the last forward of the wrapper
  /// was not
  void watch_plain_calls(std::function<void()> at_begin, std::function<void()> at_end, std::function<bool()> is_wanted);
  /// From now on, both are called in each synchronised backward: forwards past the wrapper are the rule.
  void follow_backward();
  bool follows_backward() const { return follows_; }
  /// The program reaches for the module itself, and may call its forward.
  void note_access();

  /// @throws Error  if a hook is registered already or a backward has run
  void register_hook(std::unique_ptr<CommunicationHook> hook);

  /// Takes part in one step of the other ranks without gradients of its own.
  /// @return  true if no rank has inputs left
  bool shadow_backward();
  JoinPeriod& join_period() { return context_.join; }

  /// From now on, backward leaves these buckets to `later`, which must outlive the time until `take_back`.
  void hand_over(const std::vector<std::size_t>& buckets, LaterReduction& later);
  /// Backward reduces all buckets again, in their parameters' dtype. Not collective. @param moves  false: buckets stay
  /// where they are, because nothing follows
  void take_back(bool moves = true);
  /// As GradientBuckets::use_group_memory.
  void use_group_memory();
  /// Removes all gradients from their parameters, as in a step without inputs.
  void drop_gradients();

  /// For slices, whose backwards are not synchronised: their gradients are added up between the calls below.
  /// @param arrived  called when backward has added to a parameter's gradient
  void watch_arrivals(std::function<void(std::size_t parameter)> arrived) { arrived_ = std::move(arrived); }
  /// Lets each parameter's `grad` be its place in the buckets.
  void show_gradients();
  /// Brings gradients that were put elsewhere to their places.
  void take_gradients();
  /// All slices' gradients of this rank are added up.
  void begin_slice_sums();
  /// The buckets hold averages over all slices or, if they are handed over, what `later` needs. Tells the ranks about
  /// each other as the end of a backward does, and sets `grad`. Collective.
  /// @param update       of run_shards: equal on all ranks
  /// @param contributed  by parameter: this rank has a gradient
  /// @throws AgreedError  if nothing is handed over, and ranks are in different updates
  void end_slice_sums(std::uint64_t update, const std::vector<std::uint8_t>& contributed, double waited_s);

  GradientBuckets& buckets() { return buckets_; }
  /// Whether `later` has all buckets. Then nothing is sent in backward that could carry what `replica_watch` sees, and
  /// `later` sends it.
  bool all_left() const { return num_left_ != 0 && num_left_ == buckets_.size(); }
  /// Watches all parameters but those in buckets that are handed over.
  ReplicaWatch& replica_watch() { return replica_watch_; }
  StepStatistics& statistics() { return context_.statistics; }
  int module() const { return module_; }  ///< its number, which is equal on all ranks
  /// How many synchronised backwards have reached the parameters, or sums of slices were made.
  std::uint64_t backwards() const { return backwards_; }
  /// A fused optimizer has made a step.
  void note_step() { last_step_ = {last_step_.steps + 1, backwards_}; }
  /// Runs `body`, in which the ranks meet. @param call  "a backward". @throws what it throws, with what is likely in
  /// training: loops of different lengths, or, with a fused optimizer, a step that a rank has left out
  template <typename Body>
  void meet(const char* call, const Body& body) const {
    const UncountedReductions of_this_wrapper;
    const auto advised = [&] { advise_on_uneven_inputs(body); };
    later_ == nullptr ? advised() : with_positions_of_ranks(*context_.communicator, position(), call, advised);
  }
  StepPosition position() const { return {last_step_.steps, backwards_ - last_step_.backwards}; }
  /// How many synchronised forwards had outputs that are gone without a backward through them.
  std::uint64_t unused_forwards() const { return *context_.unused_forwards; }

 private:
  /// How far the present backward is; each state includes those before it.
  enum class Backward {
    None,
    Awaited,  ///< a synchronised forward was made
    Begun,
    Reached,  ///< it has reached a parameter
    Sent,     ///< the other ranks wait for the rest
  };
  struct ParameterState {
    at::Tensor late;     // the part of the gradient that arrived after the bucket was launched
    bool ready = false;  // in this backward
  };
  struct BucketProgress {
    std::size_t pending = 0;  // parameters not ready yet
    bool is_left = false;     // to `later_`
    bool launched = false;
    std::shared_ptr<Work> work;
  };

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
  bool is_plain_call() const { return at_begin_ && (follows_ || !was_announced_); }
  void watch_local(const at::Tensor& output);
  void notice_plain_call();
  void begin_for_later();
  bool in_backward() const { return backward_ >= Backward::Begun; }
  void begin_backward();
  void reach_parameters();
  void drop_backward();
  void note_gradient(std::size_t index);
  void note_alone(std::size_t index, bool is_left);
  void pass_by(std::size_t index);
  void mark_ready(std::size_t index);
  void keep_late_gradient(std::size_t index);
  void send_ready(std::size_t index);
  void launch_ready_buckets(bool at_end);
  void launch(std::size_t bucket);
  void finish_backward();
  void check_static_graph();
  void reduce_buckets();
  void launch_last_bucket();
  void wait_for_buckets();
  void exchange_flags();
  void send_flags();
  void reduce_late_gradients();
  void scale_by_active_ranks();
  void restore_gradients();
  void give_back_to_later(std::size_t index);
  void meet_parts(bool has_inputs);
  ReduceOp reduce_op() const { return context_.join.divides_by_active_ranks() ? ReduceOp::Sum : ReduceOp::Avg; }
  bool is_left(std::size_t parameter) const { return progress_[buckets_.bucket_of(parameter)].is_left; }
  bool is_elsewhere(std::size_t parameter) const { return !is_left(parameter) && shared_.is_elsewhere(parameter); }
  bool leaves_in_backward(std::size_t bucket) const {
    return !progress_[bucket].is_left || (later_->starts_in_backward() && !context_.join.is_on());
  }
  /// The flags are sent in the last bucket, unless something else handles that one.
  bool flags_in_bucket() const {
    return context_.reduction->carries_flags() && !progress_.empty() && !progress_.back().is_left;
  }

  BackwardContext context_;
  GradientBuckets buckets_;
  ReplicaWatch replica_watch_;
  GradientHooks hooks_, sparse_hooks_;
  SharedGradients shared_;
  StaticGraph graph_;
  std::vector<std::unique_ptr<BackwardPart>> parts_;
  std::shared_ptr<BackwardTrace> trace_;
  LaterReduction* later_ = nullptr;
  std::size_t num_left_ = 0;  // buckets
  std::function<void()> at_begin_, at_end_;
  std::function<bool()> is_wanted_;
  bool follows_ = false;
  std::function<void(std::size_t)> arrived_;  // empty without slices

  std::mutex mutex_;  // guards what follows
  Backward backward_ = Backward::None;
  std::weak_ptr<void> engine_task_;  // of this backward: expires when the engine drops it
  std::weak_ptr<void> later_task_;   // of the backward that `later_` knows of
  std::weak_ptr<void> local_task_;   // of a backward that belongs to a forward in no_sync
  std::vector<ParameterState> parameters_;
  std::optional<CapturedGradients> captured_;  // empty if this rank is alone, and with slices
  bool was_announced_ = false;                 // the next synchronised backward, or the present one, by a forward
  std::vector<bool> fired_;                    // by parameter: this backward has added to its gradient
  std::vector<BucketProgress> progress_;       // by bucket
  std::size_t next_launch_ = 0;
  bool synchronise_ = true;
  bool trains_ = true;
  bool ran_ = false;  // a synchronised backward has ended
  const int module_;
  std::uint64_t backwards_ = 0;
  StepPosition last_step_;            // its `backwards` are all that were before it
  std::weak_ptr<OutputUse> forward_;  // the last synchronised one
};

}  // namespace lockstep
