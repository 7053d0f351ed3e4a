#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/reducer/accumulator_hook.h"
#include "lockstep/parallel/reducer/sparse_gradients.h"
#include "lockstep/parallel/reducer/step_flags.h"
#include "lockstep/parallel/step_statistics.h"

namespace lockstep {

struct ReducerOptions {
  std::int64_t first_bucket_cap_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_cap_bytes = std::int64_t{25} << 20;
  bool static_graph = false;
};

/// A bucket whose gradients a fused optimizer's step reduces.
struct StepBucket {
  std::size_t index = 0;  ///< in launch order
  at::Tensor memory;      ///< this rank's gradients: flat, in equal parts of whole cache lines for all ranks
  std::vector<std::size_t> parameters;  ///< indices into the reducer's list
  std::vector<std::int64_t> offsets;    ///< offset of each parameter, in elements
};

/// Averages gradients over the ranks while backward runs.
///
/// Gradients live in flat buckets that the communicator allocated, and each parameter's `grad` is a view into its
/// bucket. A hook behind each parameter's gradient accumulator marks it ready; a bucket whose parameters are all ready
/// is reduced while backward continues. Buckets are launched in one order on every rank, the last one at the end of
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
  /// @param parameters  the parameters that require a gradient; the same on every rank
  /// @param sparse      the parameters with sparse gradients; not counted among the parameters below
  static std::shared_ptr<Reducer> make(std::vector<NamedTensor> parameters, std::vector<NamedTensor> sparse,
                                       std::shared_ptr<Communicator> communicator, ReducerOptions options);
  /// Removes the hooks from the parameters. The gradients stay. From then on, a backward through a watched output is an
  /// Error.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Call it before each forward that a backward may follow. @param synchronise  false: gradients only accumulate here
  /// @throws Error  if an exception cut off the previous backward after buckets were launched
  void prepare(bool synchronise);
  /// Call it on the outputs of forward: the end of the backward that starts there is the end of the step.
  void watch_output(const at::Tensor& output);

  /// From now on, every backward that reaches the parameters is synchronised, with or without `prepare`.
  /// @param at_begin  called on every rank at the beginning of each backward; may throw
  /// @param at_end    called on every rank at the end of each backward
  void follow_backward(std::function<void()> at_begin, std::function<void()> at_end);
  /// Ends the group with the reason `what`, so that the other ranks do not wait for messages that are never sent.
  [[noreturn]] void fail(const std::string& what, const std::string& fix);

  /// @throws Error  if a hook is registered already or a backward has run
  void register_hook(std::unique_ptr<CommunicationHook> hook);

  /// Takes part in one step of the other ranks without gradients of its own.
  /// @return  true if no rank has inputs left
  bool shadow_step();
  /// Begins the period in which ranks join, that is, run out of inputs one after the other.
  /// @param divide_by_active_ranks  add up gradients and divide by the number of ranks that still have inputs
  void begin_join(bool divide_by_active_ranks) {
    joining_ = true;
    divide_by_active_ranks_ = divide_by_active_ranks;
  }
  void end_join() { joining_ = divide_by_active_ranks_ = false; }
  /// The lowest rank that still had inputs in the last step.
  int lowest_active_rank() const { return lowest_active_rank_; }

  /// The buckets, as a fused step sees them.
  std::vector<StepBucket> step_buckets() const;
  /// From now on, backward leaves these buckets (by index) alone: their gradients stay in the bucket's memory as this
  /// rank computed them, and the optimizer's step reduces them.
  void leave_to_step(const std::vector<std::size_t>& buckets);
  /// Each synchronised backward calls `start` (with the bucket's index) for each of these buckets, in launch order, and
  /// waits for the results before it ends. Not while ranks join, because a rank without inputs follows the others'
  /// steps, but not their backwards.
  void reduce_for_step_in_backward(std::function<std::shared_ptr<Work>(std::size_t)> start) {
    start_for_step_ = std::move(start);
  }
  /// Calls `watch` with the parameter's index whenever backward has added to a gradient that is left to the step.
  void watch_gradients_for_step(std::function<void(std::size_t)> watch) { watch_for_step_ = std::move(watch); }
  /// True if the last backward reduced these buckets, and nothing was written to the gradients since.
  bool is_reduced_for_step() const { return reduced_for_step_ && *reduced_for_step_ == gradients_for_step(); }
  /// Marks the reduced gradients as used.
  void end_reduction_for_step() { reduced_for_step_.reset(); }
  /// Gives these buckets memory of the communicator and of this dtype, if they have other memory. Collective.
  /// @throws Error  if memory is short on some rank; take_back_from_step then restores everything
  void set_gradient_dtype(const std::vector<std::size_t>& buckets, at::ScalarType dtype);
  /// Backward reduces all buckets again, in their parameters' dtype. Not collective.
  void take_back_from_step();
  /// Copies the gradients of the buckets left to the step into the buckets, and zeros for missing gradients.
  /// @param contributed  [parameters]: set to 1 if this rank has a gradient
  void collect_for_step(std::vector<std::uint8_t>& contributed);
  /// Sets `grad` of every parameter in these buckets for which some rank had a gradient.
  void show_after_step(const std::vector<std::uint8_t>& contributed);
  /// Removes all gradients from their parameters, as in a step without inputs.
  void drop_gradients();
  /// Counts writes to gradients of the buckets left to the step; equal counts mean that nothing was written.
  std::uint64_t writes_for_step() const;
  bool has_hook() const { return hook_ != nullptr; }
  bool allows_join() const { return !hook_ || hook_->allows_join(); }
  bool divides_by_active_ranks() const { return divide_by_active_ranks_; }
  void set_lowest_active_rank(int rank) { lowest_active_rank_ = rank; }
  std::size_t num_parameters() const { return parameters_.size(); }
  const at::Tensor& parameter(std::size_t index) const { return parameters_[index].tensor; }
  /// The place of the parameter's gradient in its bucket, in the parameter's shape.
  const at::Tensor& gradient_place(std::size_t index) const { return parameters_[index].view; }
  const std::string& name(std::size_t index) const { return parameters_[index].name; }

  StepStatistics& statistics() { return statistics_; }
  const StepStatistics& last_step() const { return statistics_; }
  /// Parameters' indices by bucket, in launch order.
  std::vector<std::vector<std::size_t>> bucket_layout() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::unique_ptr<AccumulatorHook> hook;
    std::optional<unsigned> tripwire;  // id of a hook on the tensor itself
    std::size_t bucket = 0;
    at::Tensor view;       // the gradient's place in its bucket
    at::Tensor late;       // the part that arrived after the bucket was launched
    bool ready = false;    // in this backward
    bool fired = false;    // in this backward
    bool expected = true;  // with a static graph: it got a gradient in the first step
    bool held = false;     // this rank had a gradient for the step to reduce at launch
  };
  struct BucketState {
    std::vector<std::size_t> params;
    std::vector<std::int64_t> offsets;
    std::int64_t numel = 0;   // of gradients, rounded up to equal parts for all ranks
    std::size_t pending = 0;  // parameters not ready yet
    at::Tensor memory;        // gradients; in the last bucket also the flags behind them
    bool left_to_step = false;
    bool is_private = false;  // the memory is not the communicator's
    GradBucket gradients;     // the bucket as a hook sees it
    std::shared_ptr<Work> work;
    bool launched = false;
  };

  Reducer(std::vector<NamedTensor> parameters, std::vector<NamedTensor> sparse,
          std::shared_ptr<Communicator> communicator, ReducerOptions options);
  void allocate_buckets(const ReducerOptions& options);
  void place_gradients(BucketState& bucket, const at::Tensor& memory);
  std::int64_t numel_with_flags(const BucketState& bucket) const;
  void install_hooks();
  void follow_parameters();
  void set_tripwires();
  void on_tripwire(std::size_t index);
  void on_gradient(std::size_t index);
  void on_sparse_gradient();
  void take_note_of(std::size_t index);
  void take_note_of_backward();
  void average_sparse(bool has_inputs);
  void check_moved_parameters();
  void begin_backward();
  void drop_backward();
  void finish_backward();
  bool take_gradient(Parameter& parameter);
  void adopt_gradient(std::size_t index);
  void mark_ready(std::size_t index);
  void keep_late_gradient(Parameter& parameter);
  void launch_ready_buckets();
  void launch(BucketState& bucket);
  void wait_for_buckets();
  void exchange_flags();
  void reduce_late_gradients();
  void scale_by_active_ranks();
  void restore_gradients();
  void restore_gradient_for_step(std::size_t index);
  void learn_static_graph();
  ReduceOp reduce_op() const { return divide_by_active_ranks_ ? ReduceOp::Sum : ReduceOp::Avg; }
  bool is_left_to_step(std::size_t parameter) const { return buckets_[parameters_[parameter].bucket].left_to_step; }
  bool leaves_in_backward(const BucketState& bucket) const {
    return !bucket.left_to_step || (start_for_step_ && !joining_);
  }
  /// Values that change if gradients left to the step do: their arrivals, and versions.
  std::vector<std::uint64_t> gradients_for_step() const;
  /// The flags are sent in the last bucket, unless something else handles that one.
  bool flags_in_bucket() const { return !hook_ && !buckets_.empty() && !buckets_.back().left_to_step; }
  at::Tensor flags_memory() const;

  std::shared_ptr<Communicator> communicator_;
  std::vector<Parameter> parameters_;
  std::vector<BucketState> buckets_;
  SparseGradients sparse_;
  std::unique_ptr<CommunicationHook> hook_;
  StepFlags flags_;
  bool follows_backward_ = false;
  std::function<void()> at_begin_, at_end_;
  std::function<std::shared_ptr<Work>(std::size_t)> start_for_step_;
  std::function<void(std::size_t)> watch_for_step_;
  std::optional<std::vector<std::uint64_t>> reduced_for_step_;
  const bool static_graph_;
  bool graph_learned_ = false;

  std::mutex mutex_;
  bool synchronise_ = true;
  bool in_backward_ = false;
  std::weak_ptr<void> engine_task_;  // of this backward: expires when the engine drops it
  bool moved_ = false;               // a parameter got other memory, and the ranks have not compared since
  bool awaits_backward_ = false;     // a synchronised forward was made
  bool any_fired_ = false;
  bool ran_ = false;
  bool sent_ = false;           // this backward has sent something
  bool all_left_ = false;       // every bucket is left to the step
  std::uint64_t arrivals_ = 0;  // of gradients that are left to the step
  std::size_t next_launch_ = 0;
  bool joining_ = false;
  bool divide_by_active_ranks_ = false;
  int lowest_active_rank_ = 0;
  StepStatistics statistics_;
};

}  // namespace lockstep
