#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/step_statistics.h"
#include "lockstep/tensor/call_forward.h"
#include "lockstep/tensor/module_tensors.h"
#include "lockstep/tensor/visit_tensors.h"
#include "lockstep/tensor/wrapped_module.h"

namespace lockstep {

class FusedStep;
class ParameterWatch;
class Reducer;

/// The arguments of PyTorch's DistributedDataParallel that make sense here, under their names.
///
/// Not among them, because they always hold: gradients are views into the buckets (`gradient_as_bucket_view`), and
/// parameters without a gradient are found (`find_unused_parameters`).
struct DistributedDataParallelOptions {
  std::shared_ptr<Communicator> process_group;  ///< default: the group of init_process_group
  /// Upper bound of a bucket, in MiB. 0: 1 for the first, and for the others 25 on one host, 2 between hosts; a number
  /// holds for the first as well.
  double bucket_cap_mb = 0;
  bool broadcast_buffers = true;  ///< rank 0's buffers to all, before each forward in training
  bool init_sync = true;          ///< at construction: check that the models are equal, and send rank 0's to all
  /// The same parameters get gradients in every step: those that do not are known from the second step on and hold no
  /// bucket back. An Error where it turns out not to be so.
  bool static_graph = false;
  std::vector<std::string> parameters_and_buffers_to_ignore;  ///< names that are left alone
};

struct JoinOptions {
  /// true: the average counts ranks that have run out of inputs as zero gradients, as PyTorch does by default.
  /// false: it is over the ranks that still have inputs.
  bool divide_by_initial_world_size = true;
  /// LibTorch's optimizers that the loop steps; those of Lockstep are known. Each rank's own, in the same order.
  std::vector<torch::optim::Optimizer*> optimizers = {};
};

/// What DistributedDataParallel does that does not depend on the type of the module.
class DistributedDataParallelBase {
 public:
  ~DistributedDataParallelBase();
  DistributedDataParallelBase(const DistributedDataParallelBase&) = delete;
  DistributedDataParallelBase& operator=(const DistributedDataParallelBase&) = delete;

  /// While the returned object lives, gradients accumulate on this rank only. As in PyTorch, it is forward that counts:
  /// the backward of a forward made meanwhile is not synchronised.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(bool& flag) : flag_(&flag), before_(std::exchange(flag, false)) {}
    NoSync(NoSync&& other) noexcept : flag_(std::exchange(other.flag_, nullptr)), before_(other.before_) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (flag_ != nullptr) *flag_ = before_;
    }

   private:
    bool* flag_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(synchronise_); }

  /// Runs `loop`, which may make fewer steps than on other ranks; then takes part in the others' steps with empty hands
  /// until all are through, and takes over the parameters and buffers of a rank that was last, and the state and
  /// options of its optimizers: of Lockstep's own by itself, of others where they are named in the options; else a
  /// warning says what is missing. Collective.
  /// @return  the rank that was last: the source of whatever else the loop has changed, such as schedulers
  /// @throws Error  if the communication hook leaves the ranks apart (noop, post-local SGD)
  int join(const std::function<void()>& loop, JoinOptions options = {});

  /// Puts `hook` in place of the averaging all-reduce. Once, before the first backward, the same on every rank.
  void register_comm_hook(std::unique_ptr<CommunicationHook> hook);
  /// What the registered hook keeps from step to step on this rank, as residuals of compression: copies, for a
  /// checkpoint of this rank. Empty without a hook, or with one that keeps nothing.
  HookState comm_hook_state() const { return hook_ == nullptr ? HookState() : hook_->state(); }
  /// Takes it up. @throws Error  if no hook or one of another kind is registered
  void load_comm_hook_state(const HookState& state);
  /// The registered hook leaves the ranks' weights apart in some steps: a checkpoint needs those of each rank.
  bool replicas_may_differ() const { return hook_ != nullptr && !hook_->allows_join(); }

  /// Lets the ranks share the work of `optimizer`, which is one of Lockstep's own over this module's parameters: its
  /// `step` then adds up the ranks' gradients, clips, updates and publishes in one pass, each rank a share of every
  /// bucket, and each rank keeps that share of the optimizer's state. Where ranks share memory, all have one copy of
  /// the weights; elsewhere shares are sent around (ZeRO, stage 1). Where neither can be, nothing changes,
  /// `fuse_reason` says why, and so does a warning. Collective.
  ///
  /// The weights after a step are those without fuse. What differs: `grad` holds this rank's gradients, not the
  /// average, which the step makes; every step averages, whether a backward was in no_sync or not; and where weights
  /// are shared, what one rank writes to them, all see. The end of DistributedDataParallel or of the optimizer gives
  /// every rank weights of its own again.
  ///
  /// Weights may be written by hand before backward, after the step, and after `zero_grad()`: the same on every rank,
  /// which the next step checks as far as each rank has memory of its own (see own_weights). torch::load of the same
  /// file on every rank is taken up by the next step. What writes to them between backward and step, as
  /// another optimizer does, and LibTorch's own clipping, which takes this rank's gradients for the average, end in an
  /// Error that says what to write instead.
  ///
  /// @throws Error  if an optimizer is fused already, or this one has none of the module's parameters
  FuseMode fuse(FlatOptimizer& optimizer, FuseOptions options = {});
  /// The same for one whose kind is known at run time only. @throws Error  if it is none of Lockstep's, too
  FuseMode fuse(torch::optim::Optimizer& optimizer, FuseOptions options = {});
  /// Others do not compile.
  template <typename Optimizer, std::enable_if_t<!std::is_base_of_v<FlatOptimizer, Optimizer>, int> = 0>
  FuseMode fuse(Optimizer&, const FuseOptions& = {}) {
    static_assert(
        std::is_base_of_v<FlatOptimizer, Optimizer>,
        "fuse takes one of Lockstep's optimizers: lockstep::SGD, lockstep::Adam or lockstep::AdamW, which take "
        "the options of torch::optim::SGD, Adam and AdamW and compute the same");
    return FuseMode::Off;
  }
  /// Takes it back: the optimizer has all of its state again. Collective. Nothing where nothing is fused.
  void unfuse();
  /// Before a program writes to weights by hand where ranks share them: gives this rank weights of its own, so that
  /// each may write as without fuse, `weight.mul_(0.9)` or an average that is swapped in and back. The next step
  /// compares what the ranks have, bit for bit, and lets them share again. Costs memory for the weights until then. Not
  /// collective. Nothing where ranks share no weights.
  /// @throws Error  between backward and step
  void own_weights();
  FuseMode fuse_mode() const;
  /// Why the last `fuse` changed nothing; else empty.
  const std::string& fuse_reason() const { return fuse_reason_; }
  /// All of an optimizer's state by the module's names, on every rank, fused or not. Any number of ranks can load it
  /// with `optimizer.load_named_state`. Collective.
  /// @throws Error  if the optimizer has parameters that the module has not
  NamedState optimizer_state(const FlatOptimizer& optimizer) const;
  /// All of the module's parameters by name, as `load_named_state` wants them.
  const NamedParameters& named_parameters() const { return names_; }

  /// Lets the module be called by itself: a backward through it is synchronised without a forward through this object.
  /// Its buffers then become rank 0's when backward ends. Not for models that run a backward inside another
  /// (activation checkpointing).
  void follow_backward();

  const StepStatistics& last_step() const;
  /// Names of the parameters by bucket, in launch order.
  std::vector<std::vector<std::string>> bucket_names() const;
  Communicator& process_group() { return *communicator_; }

 protected:
  DistributedDataParallelBase(ModuleTensors tensors, DistributedDataParallelOptions options);
  void before_forward();
  void watch_output(const at::Tensor& output);

 private:
  void check_trainable(const std::vector<NamedTensor>& parameters) const;
  void check_parameters();
  std::vector<at::Tensor> buffers() const;
  void synchronise_buffers(int root);
  void take_over_from(int last, const JoinOptions& options, bool was_through_early);

  std::shared_ptr<Communicator> communicator_;
  DistributedDataParallelOptions options_;
  ModuleTensors tensors_;
  NamedParameters names_;                  // of all parameters
  std::unique_ptr<ParameterWatch> watch_;  // of tensors_
  std::shared_ptr<Reducer> reducer_;
  std::unique_ptr<FusedStep> fused_;  // uses the reducer
  std::string fuse_reason_;
  CommunicationHook* hook_ = nullptr;  // the reducer's
  bool synchronise_ = true;
  bool has_buffers_ = false;
};

/// Wraps a module so that backward leaves the average of all ranks' gradients in every rank's parameters.
///
///     ConvNet model;                                     // any holder, shared_ptr to a Module, or torch::jit::Module
///     lockstep::DistributedDataParallel ddp(model);
///     auto loss = criterion(ddp(images), labels);
///     loss.backward();                                   // gradients are averaged while it runs
///     optimizer.step();                                  // over model->parameters(), the same on every rank
///
/// `train`, `eval`, `is_training`, `parameters`, `buffers`, `zero_grad` and `->` are the wrapped module's own.
/// The wrapped module is not changed: its parameters and state keep their plain names, and it can be saved or evaluated
/// by itself through `module()`. All ranks make the same number of forwards and backwards in training; see `join` for
/// those that cannot. After Li et al., 2020, arXiv:2006.15704.
///
/// New values and new memory for parameters (torch::load, set_) are followed, if every rank loads the same. What
/// buckets cannot follow ends the group with an Error that names the parameter: another type, device or shape, other
/// parameters, and gradients for frozen ones. Then convert or build first, and wrap afterwards.
///
/// Errors: construction throws if the ranks' models differ; forward and backward throw as the communicator does.
template <typename ModuleType>
class DistributedDataParallel : public DistributedDataParallelBase,
                                public ModuleMembers<DistributedDataParallel<ModuleType>, ModuleType> {
  static_assert(detail::require_wrappable<ModuleType>());

 public:
  using ModuleMembers<DistributedDataParallel<ModuleType>, ModuleType>::buffers;

  explicit DistributedDataParallel(ModuleType module, DistributedDataParallelOptions options = {})
      : DistributedDataParallelBase(module_tensors(detail::plain_module(module)), std::move(options)),
        module_(std::move(module)) {}

  /// The module's own forward, made part of a synchronised step. See visit_tensors for what it may return.
  template <typename... Args>
  auto forward(Args&&... args) {
    before_forward();
    auto output = call_forward(module_, std::forward<Args>(args)...);
    visit_tensors(output, [this](const at::Tensor& tensor) { watch_output(tensor); });
    return output;
  }
  template <typename... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  ModuleType& module() { return module_; }

 private:
  ModuleType module_;
};

}  // namespace lockstep
