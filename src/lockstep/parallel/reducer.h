#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/module_tensors.h"
#include "lockstep/parallel/step_flags.h"

namespace lockstep {

struct ReducerOptions {
  std::int64_t first_bucket_cap_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_cap_bytes = std::int64_t{25} << 20;
  bool static_graph = false;
};

/// What the last synchronised backward did.
struct StepStatistics {
  std::int64_t bytes = 0;  ///< of gradients, given to the communicator
  std::size_t buckets = 0;
  double waited_s = 0;                ///< the backward thread stood still for reductions
  double overlapped_s = 0;            ///< reductions ran while backward computed
  std::size_t late_gradients = 0;     ///< came after their bucket had left; they took a second round
  std::size_t unused_parameters = 0;  ///< without a gradient on any rank
};

/// Averages gradients over the ranks while backward runs.
///
/// Gradients live in flat buckets that the communicator allocated, and each parameter's `grad` is a view into its
/// bucket. A hook behind each parameter's gradient accumulator marks it ready; a bucket whose parameters are all ready
/// is reduced while backward goes on. Buckets are launched in one order on every rank, the last one at the end of
/// backward.
///
/// Parameters that got no gradient in this backward count as ready at its end, so unused parameters need no flag: their
/// `grad` stays undefined if no rank has one, and is the average over all ranks otherwise. A gradient that comes after
/// its bucket has left (re-entrant backward of a shared parameter) is kept apart and added in a second round.
///
/// Collective: every rank runs the same number of synchronised backwards. Not for several threads at once, but the
/// autograd engine may call from threads of its own.
class Reducer {
 public:
  /// @param parameters  those that require a gradient; the same on every rank
  Reducer(std::vector<NamedTensor> parameters, std::shared_ptr<Communicator> communicator, ReducerOptions options);
  /// Takes the hooks off the parameters. The gradients stay.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Called before each forward whose backward may follow. @param synchronise  false: gradients only accumulate here
  /// @throws Error  if the previous backward was cut off by an exception after gradients had left
  void prepare(bool synchronise);
  /// Called on the outputs of forward: the end of the backward that starts there is the end of the step.
  void watch_output(const at::Tensor& output);

  /// @throws Error  if a hook is there already or a backward has run
  void register_hook(std::unique_ptr<CommunicationHook> hook);

  /// Takes part in one step of the others with nothing of its own. `average` as in set_sum.
  /// @return  true where no rank has inputs left
  bool shadow_step();
  /// While ranks join: add up gradients and divide by the number of ranks that still have inputs.
  void set_divide_by_active_ranks(bool on) { divide_by_active_ranks_ = on; }
  /// The lowest rank that still had inputs in the last step.
  int lowest_active_rank() const { return lowest_active_rank_; }

  const StepStatistics& last_step() const { return statistics_; }
  /// Parameters' indices by bucket, in launch order.
  std::vector<std::vector<std::size_t>> bucket_layout() const;

 private:
  using Clock = std::chrono::steady_clock;

  // A shared_ptr or an intrusive_ptr to the node, as LibTorch's version has it.
  using GradAccumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  struct Parameter {
    std::string name;
    at::Tensor tensor;
    GradAccumulator accumulator;  // kept alive: the tensor itself holds it weakly
    std::uintptr_t hook_key = 0;
    std::size_t bucket = 0;
    at::Tensor view;       // the gradient's place in its bucket
    at::Tensor late;       // what came after the bucket had left
    bool ready = false;    // in this backward
    bool fired = false;    // in this backward
    bool expected = true;  // with a static graph: got a gradient in the first step
  };
  struct BucketState {
    std::vector<std::size_t> params;
    std::size_t pending = 0;  // parameters not ready yet
    at::Tensor memory;        // gradients, and in the last bucket the flags behind them
    GradBucket gradients;     // what a hook sees
    std::shared_ptr<Work> work;
    bool launched = false;
  };

  void allocate_buckets(const ReducerOptions& options);
  void install_hooks();
  void on_gradient(std::size_t index);
  void begin_backward();
  void finish_backward();
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
  void learn_static_graph();
  ReduceOp reduce_op() const { return divide_by_active_ranks_ ? ReduceOp::Sum : ReduceOp::Avg; }
  [[noreturn]] void fail(const std::string& what, const std::string& fix);

  std::shared_ptr<Communicator> communicator_;
  std::vector<Parameter> parameters_;
  std::vector<BucketState> buckets_;
  std::unique_ptr<CommunicationHook> hook_;
  StepFlags flags_;
  const bool static_graph_;
  bool graph_learned_ = false;

  std::mutex mutex_;
  bool synchronise_ = true;
  bool in_backward_ = false;
  bool any_fired_ = false;
  bool ran_ = false;
  std::size_t next_launch_ = 0;
  bool divide_by_active_ranks_ = false;
  int lowest_active_rank_ = 0;
  StepStatistics statistics_;
};

}  // namespace lockstep
