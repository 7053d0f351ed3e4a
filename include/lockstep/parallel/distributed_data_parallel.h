#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/parallel/distributed_data_parallel_options.h"
#include "lockstep/detail/parallel/fused_step.h"
#include "lockstep/detail/parallel/old_fuse_names.h"
#include "lockstep/detail/parallel/shard_range.h"
#include "lockstep/detail/parallel/step_statistics.h"
#include "lockstep/detail/tensor/call_forward.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/detail/tensor/visit_tensors.h"
#include "lockstep/detail/tensor/wrapped_module.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/fuse_options.h"

namespace lockstep {

class DistributedReplica;

/// The part of DistributedDataParallel that does not depend on the type of the module.
///
/// An empty one wraps no module: it was made without one, or was moved from. `is_empty`, assignment and destruction
/// work then; everything else throws an Error.
class DistributedDataParallelBase : public detail::OldFuseNames<DistributedDataParallelBase> {
 public:
  ~DistributedDataParallelBase();
  DistributedDataParallelBase(const DistributedDataParallelBase&) = delete;
  DistributedDataParallelBase& operator=(const DistributedDataParallelBase&) = delete;

  bool is_empty() const noexcept { return replica_ == nullptr; }
  explicit operator bool() const noexcept { return !is_empty(); }

  /// While the returned object lives, gradients accumulate on this rank only. As in PyTorch, forward decides: the
  /// backward of a forward made during this time is not synchronised.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(std::shared_ptr<bool> flag) : flag_(std::move(flag)), before_(std::exchange(*flag_, false)) {}
    NoSync(NoSync&&) noexcept = default;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (flag_) *flag_ = before_;
    }

   private:
    std::shared_ptr<bool> flag_;  // the wrapper may go first
    bool before_;
  };
  NoSync no_sync();

  /// Runs `loop`, which may make fewer steps than on other ranks. A rank that is done takes part in the others' steps
  /// without gradients until all are done. It then takes over the parameters and buffers of a rank that finished last,
  /// and the state and options of that rank's optimizers. Lockstep's optimizers are found automatically; others must be
  /// named in `options`, or a warning lists what is missing. Collective.
  /// @return  the rank that finished last: the source of anything else that the loop has changed, such as schedulers
  /// @throws Error  if the communication hook lets the ranks' models differ (noop, post-local SGD)
  int join(const std::function<void()>& loop, const JoinOptions& options = {});

  /// Uses `hook` in place of the averaging all-reduce. Call it once, before the first backward, with the same hook on
  /// every rank. @throws Error  if an optimizer is fused, whose step would ignore the hook
  void register_comm_hook(std::unique_ptr<CommunicationHook> hook);
  /// Copies of the registered hook's state on this rank, such as residuals of compression, for a checkpoint of this
  /// rank. Empty without a hook, or if the hook has no state.
  HookState comm_hook_state() const;
  /// Restores that state. @throws Error  if no hook, or one of another kind, is registered
  void load_comm_hook_state(const HookState& state);
  /// True if the registered hook lets the ranks' weights differ in some steps: a checkpoint then needs the weights of
  /// each rank.
  bool replicas_may_differ() const;

  /// Lets the ranks share the work of `optimizer`, one of Lockstep's own over this module's parameters. Its `step` then
  /// adds up the ranks' gradients, clips, updates and publishes the weights in one pass. Each rank updates a share of
  /// every bucket, and keeps that share of the optimizer's state. Ranks that share memory have one copy of the weights;
  /// other ranks send their shares to each other (ZeRO, stage 1). If neither is possible, nothing changes, and
  /// FusedStep::reason and a warning say why. With FuseOptions::stage 2 the ranks share out the gradients too, and with
  /// 3 the weights. Collective.
  ///
  /// After a step the weights are those of an unfused step. These things differ: `grad` holds this rank's gradients
  /// instead of the average, which only the step computes; and every step averages, even after backwards in no_sync.
  /// When DistributedDataParallel or the optimizer is destroyed, every rank gets weights of its own again.
  ///
  /// A program may write weights by hand before backward, after the step, and after `zero_grad()`, the same values on
  /// every rank, which the next step checks (see FusedStep::own_weights for writes by address). If every rank loads the
  /// same file by torch::load, the next step uses the loaded weights. Writes between backward and step, for example by
  /// another optimizer, end in an Error that says what to write instead. So does LibTorch's own clipping, which would
  /// take this rank's gradients for the average.
  ///
  /// @return  what belongs to this step; it may be dropped
  /// @throws Error  if an optimizer is fused already, or if this one has none of the module's parameters
  FusedStep fuse(FlatOptimizer& optimizer, FuseOptions options = {});
  /// Fuses an optimizer whose kind is known only at run time. @throws Error  as above, and if it is not one of
  /// Lockstep's
  FusedStep fuse(torch::optim::Optimizer& optimizer, FuseOptions options = {});
  /// Other optimizers do not compile.
  template <typename Optimizer, std::enable_if_t<!std::is_base_of_v<FlatOptimizer, Optimizer>, int> = 0>
  FusedStep fuse(Optimizer&, const FuseOptions& = {}) {
    static_assert(
        std::is_base_of_v<FlatOptimizer, Optimizer>,
        "fuse takes one of Lockstep's optimizers: lockstep::SGD, lockstep::Adam or lockstep::AdamW, which take "
        "the options of torch::optim::SGD, Adam and AdamW and compute the same");
    return {};
  }
  /// What the last `fuse` has returned.
  FusedStep fused_step() const;
  /// The whole state of an optimizer by the module's names, on every rank, fused or not. Any number of ranks can load
  /// it with `optimizer.load_named_state`. Collective.
  /// @throws Error  if the optimizer has parameters that the module lacks
  NamedState optimizer_state(const FlatOptimizer& optimizer) const;
  /// All of the module's parameters by name, for `load_named_state`.
  const NamedParameters& named_parameters() const;

  /// For programs that call the module itself: its buffers become rank 0's at the end of every synchronised backward,
  /// and new memory for parameters is followed in backward, too. Not for models that run a backward inside
  /// another (activation checkpointing).
  void follow_backward();

  /// With virtual shards: the ones that this rank computes, a run of neighbours. Ranks have equally many, or lower
  /// ranks have one more.
  ShardRange shards() const;
  /// With virtual shards, makes the gradients of one update. Calls `body(shard)` for each of this rank's shards in
  /// order; it runs forward and backward of the shard's samples, or nothing if the shard has no samples. Afterwards
  /// `grad` is the average over all shards, a shard without samples counting as zeros, or, if an optimizer is fused,
  /// what its step needs. Gradients from before the call are discarded.
  ///
  ///     for (int step = 0; step < steps; ++step) {
  ///       ddp.run_shards(step, [&](std::int64_t shard) {
  ///         const auto [images, labels] = samples_of(step, shard);    // the same for every number of ranks
  ///         criterion(ddp(images), labels).backward();
  ///       });
  ///       optimizer.step();
  ///     }
  ///
  /// Weights and the optimizer's state then have the same bits for every number of ranks, engine, and with or without
  /// `fuse`, on processors with the same instruction sets: gradients are added in one fixed tree over the shards, and a
  /// shard is computed in the same way everywhere. During `body` this thread computes with one thread, and random
  /// numbers of the CPU are a function of (update, shard). Each shard begins with the buffers from before the update,
  /// such as running averages; afterwards they are the mean over the shards that had a forward. Collective.
  /// @param update  identifies the update, for random numbers: a seed and a step, mixed
  /// @throws Error  if virtual_shards is 0; what `body` throws
  void run_shards(std::uint64_t update, const std::function<void(std::int64_t shard)>& body);

  const StepStatistics& last_step() const;
  /// Names of the parameters by bucket, in launch order.
  std::vector<std::vector<std::string>> bucket_names() const;
  Communicator& process_group() const;

 protected:
  DistributedDataParallelBase();  // empty
  DistributedDataParallelBase(ModuleTensors tensors, DistributedDataParallelOptions options);
  DistributedDataParallelBase(DistributedDataParallelBase&& other) noexcept;
  DistributedDataParallelBase& operator=(DistributedDataParallelBase&& other) noexcept;

  /// Lives while the module's forward runs.
  class [[nodiscard]] InForward {
   public:
    explicit InForward(DistributedDataParallelBase& ddp) : ddp_(ddp) { ddp_.before_forward(); }
    InForward(const InForward&) = delete;
    InForward& operator=(const InForward&) = delete;
    ~InForward() { ddp_.after_forward(); }

   private:
    DistributedDataParallelBase& ddp_;
  };
  void before_forward();
  void after_forward() noexcept;
  void watch_output(const at::Tensor& output);
  /// The program reaches for the module itself.
  void note_access();
  /// @throws Error  if this wraps no module
  DistributedReplica& replica() const;
  /// @throws Error  if what is to be wrapped is empty
  static void require_module(bool exists);

 private:
  std::unique_ptr<DistributedReplica> replica_;
};

/// Wraps a module so that backward leaves the average of all ranks' gradients in every rank's parameters.
///
///     ConvNet model;                                     // any holder, shared_ptr to a Module, or torch::jit::Module
///     lockstep::DistributedDataParallel ddp(model);
///     auto loss = criterion(ddp(images), labels);
///     loss.backward();                                   // gradients are averaged while it runs
///     optimizer.step();                                  // over model->parameters(), the same on every rank
///
/// One that is declared before its module is there begins empty, like a module holder of LibTorch, and is assigned:
///
///     lockstep::DistributedDataParallel<ConvNet> ddp{nullptr};
///     ddp = lockstep::DistributedDataParallel(model);
///
/// `train`, `eval`, `is_training`, `parameters`, `buffers`, `zero_grad` and `->` are the wrapped module's own.
/// The wrapped module is not changed: its parameters and state keep their plain names, and `module()` can be saved or
/// evaluated by itself. All ranks make the same number of forwards and backwards in training; if they cannot, see
/// `join`. After Li et al., 2020, arXiv:2006.15704.
///
/// New values and new memory for parameters (torch::load, set_) are followed, if every rank loads the same. The buckets
/// cannot follow another type, device or shape, other parameters, or gradients for frozen parameters: these end the
/// group with an Error that names the parameter. Convert or build the module first, and wrap it afterwards.
///
/// Errors: forward and backward throw as Communicator does.
template <typename ModuleType>
class DistributedDataParallel : public DistributedDataParallelBase,
                                public ModuleMembers<DistributedDataParallel<ModuleType>, ModuleType> {
  static_assert(detail::require_wrappable<ModuleType>());

 public:
  using Members = ModuleMembers<DistributedDataParallel<ModuleType>, ModuleType>;
  using Members::buffers;

  DistributedDataParallel() = default;  ///< empty
  DistributedDataParallel(std::nullptr_t) {}
  /// Collective.
  /// @throws Error  if there is no group, no parameter requires a gradient, or a parameter is on another device than
  /// the group's engine or is not floating point; on every rank, if the ranks' options or models differ, naming the
  /// first difference; as Communicator does
  explicit DistributedDataParallel(ModuleType module, DistributedDataParallelOptions options = {})
      : DistributedDataParallelBase(module_tensors(present(module)), std::move(options)), module_(std::move(module)) {}

  /// The module's own forward, as part of a synchronised step. It may return a tensor, an IValue, an optional, pair,
  /// tuple, range or map of these at any depth, or a struct with a member or a function beside it, `visit_tensors`,
  /// that calls its argument with each tensor.
  template <typename... Args>
  auto forward(Args&&... args) {
    const InForward in_forward(*this);
    auto output = call_forward(*module_, std::forward<Args>(args)...);
    visit_tensors(output, [this](const at::Tensor& tensor) { watch_output(tensor); });
    return output;
  }
  template <typename... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  /// The module itself. A forward through it, `ddp->forward(x)` or another member, is followed by a synchronised
  /// backward, too; then buffers become rank 0's at the end of that backward. With weights in shards (stage 3), and in
  /// `no_sync` and `join`, call this object.
  auto* operator->() {
    note_access();
    return Members::operator->();
  }

  /// @throws Error  if this is empty
  ModuleType& module() {
    replica();
    return *module_;
  }

 private:
  static auto& present(ModuleType& module) {
    if constexpr (!kIsScriptModule<ModuleType>) require_module(static_cast<bool>(module));
    return detail::plain_module(module);
  }

  std::optional<ModuleType> module_;
};

}  // namespace lockstep
