#include "lockstep/parallel/wrapper/distributed_replica.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>
#include <fmt/format.h>

#include <typeinfo>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/communicator/reduced_elements.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/agreement/state_watch.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/fused/weights/weight_units.h"
#include "lockstep/parallel/hooks/same_settings.h"
#include "lockstep/parallel/slices/slice_checks.h"
#include "lockstep/parallel/wrapping.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {
namespace {

// `sharding_strategy` as `stage` and `hybrid_shard`, unless these say it.
void take_strategy(FuseOptions& options, const std::string& where) {
  const ShardingStrategy strategy = options.sharding_strategy;
  if (strategy == ShardingStrategy::NoShard) return;
  if (options.stage != 1 && options.stage != stage_of(strategy)) {
    throw Error(fmt::format("stage is {}, and sharding_strategy {} is stage {}", options.stage, to_string(strategy),
                            stage_of(strategy)),
                where, "give one of them");
  }
  options.stage = stage_of(strategy);
  options.hybrid_shard = options.hybrid_shard || is_hybrid(strategy);
}

}  // namespace

ShardedWeights* sharded_weights_of(const FusedUpdate* update) {
  return update == nullptr ? nullptr : dynamic_cast<ShardedWeights*>(update->weights());
}

DistributedReplica::DistributedReplica(ModuleTensors tensors, DistributedDataParallelOptions options)
    : communicator_(carrier_of_gradients(options.process_group ? options.process_group : default_group(), tensors)),
      options_(std::move(options)),
      tensors_(std::move(tensors)) {
  const UncountedReductions of_this_wrapper;
  for (const auto& entry : tensors_.parameters) names_.emplace_back(entry.name, entry.tensor);
  const auto& ignored = options_.parameters_and_buffers_to_ignore;
  tensors_.parameters = without(std::move(tensors_.parameters), ignored);
  const auto named_buffers = without(tensors_.buffers(), ignored);
  has_buffers_ = !named_buffers.empty();
  check_trainable(*communicator_, tensors_.parameters);
  check_equal_options(*communicator_, options_, tensors_);
  if (options_.virtual_shards != 0) check_slices(options_, tensors_, *communicator_);
  if (options_.init_sync && communicator_->world_size() > 1) make_equal(named_buffers);
  if (StateWatch* const watch = StateWatch::current()) watch->add(tensors_.parameters, named_buffers);
  ReducerOptions of_reducer = reducer_options(options_, *communicator_);
  wrapped_ = std::make_unique<WrappedModule>(communicator_, names_);
  of_reducer.module = wrapped_->number();
  of_reducer.gets_memory_later = gets_memory_later_ = fused_memory_follows();
  reducer_ = Reducer::make(reducer_parameters(tensors_), communicator_, of_reducer);
  watch_ = std::make_unique<ParameterWatch>(tensors_, ignored);
  watch_calls();
  if (options_.virtual_shards == 0) return;
  *synchronises_ = false;
  slices_ = std::make_unique<Slices>(options_.virtual_shards, *reducer_, *communicator_,
                                     has_buffers_ ? tensors_.buffers : nullptr);
}

// The ranks' models, which rank 0 gives.
void DistributedReplica::make_equal(const std::vector<NamedTensor>& buffers) {
  check_equal_across_ranks(*communicator_, tensors_.parameters, "parameter", /*compares_deferred=*/true);
  check_equal_buffers_across_ranks(*communicator_, buffers);
  deferred_ = std::make_unique<DeferredOfModule>(*communicator_, tensors_.parameters);
  std::vector<at::Tensor> all = deferred_->in_memory();
  for (const auto& entry : buffers) all.push_back(entry.tensor);
  broadcast_coalesced(*communicator_, all, 0);
  if (deferred_->is_empty()) deferred_.reset();
}

void DistributedReplica::watch_calls() {
  auto& replicas = reducer_->backward().context().replicas;
  if (!options_.watch_replicas) replicas.stop();
  if (has_buffers_) {
    replicas.watch_buffers([this]() -> std::vector<NamedTensor> {
      if (options_.broadcast_buffers && tensors_.is_training()) return {};
      return without(tensors_.buffers(), options_.parameters_and_buffers_to_ignore);
    });
  }
  if (options_.virtual_shards != 0) return;
  // At the end, not at the beginning: batch normalisation keeps its averages for backward, and they must not change
  // before.
  reducer_->watch_plain_calls([this] { check_parameters(); },
                              [this] {
                                if (tensors_.is_training()) synchronise_buffers(0);
                              },
                              [this] { return *synchronises_; });
}

std::vector<at::Tensor> DistributedReplica::buffers() const {
  return tensors_of(without(tensors_.buffers(), options_.parameters_and_buffers_to_ignore));
}

void DistributedReplica::synchronise_buffers(int root) {
  if (has_buffers_ && options_.broadcast_buffers && communicator_->world_size() > 1) {
    broadcast_buffers(*communicator_, buffers(), root, wrapped_->number());
  }
}

void DistributedReplica::check_parameters() {
  if (const auto change = watch_->look()) end_group(*communicator_, change->what, change->fix);
}

void DistributedReplica::before_forward() {
  if (at::GradMode::is_enabled()) prepare_forward();
  if (ShardedWeights* const shards = sharded_weights_of(update())) shards->enter_forward();
}

void DistributedReplica::after_forward() noexcept {
  if (ShardedWeights* const shards = sharded_weights_of(update())) shards->leave_forward();
}

void DistributedReplica::prepare_forward() {
  if (deferred_) synchronise_deferred();
  check_parameters();
  if (slices_) {
    if (!slices_->is_in_slice()) {
      throw Error("forward was called outside of run_shards, so its gradients would not be added up",
                  communicator_->membership().where() + ", virtual_shards",
                  "call it in the body of run_shards; to evaluate, turn gradients off");
    }
    slices_->note_forward();
  } else if (FusedUpdate* const fused = update()) {
    fused->before_forward();
  }
  reducer_->prepare(*synchronises_, tensors_.is_training());
  // Only in training, because a rank may evaluate by itself.
  if (!*synchronises_ || !tensors_.is_training()) return;
  reducer_->backward().meet("a forward",
                            [this] { synchronise_buffers(reducer_->backward().context().join.lowest_active_rank()); });
}

// Weights that no fused update has taken over.
void DistributedReplica::synchronise_deferred() {
  const std::unique_ptr<DeferredOfModule> deferred = std::move(deferred_);
  const FusedUpdate* const fused = update();
  const auto is_left = [fused](const at::Tensor& parameter) { return fused == nullptr || !fused->covers(parameter); };
  broadcast_coalesced(*communicator_, deferred->make(is_left), 0);
}

void DistributedReplica::note_access() {
  if (!slices_ && at::GradMode::is_enabled()) reducer_->note_access();
}

void DistributedReplica::follow_backward() {
  Features features;
  if (slices_) features.add(Feature::VirtualShards);
  features.add(Feature::FollowBackward).require_together(communicator_->membership().where() + ", follow_backward");
  reducer_->follow_backward();
}

void DistributedReplica::run_shards(std::uint64_t update_number, const std::function<void(std::int64_t shard)>& body) {
  if (!slices_) {
    throw Error("run_shards needs virtual shards", communicator_->membership().where() + ", virtual_shards",
                "set DistributedDataParallelOptions::virtual_shards");
  }
  FusedUpdate* const fused = update();
  bool are_zero = false;
  if (std::exchange(gets_memory_later_, false) && fused == nullptr) reducer_->use_group_memory();
  if (fused != nullptr) {
    are_zero = fused->gradients_are_zero();
    fused->before_forward();
    fused->gradients_dropped();
  }
  slices_->run(update_number, are_zero, body);
  if (FusedUpdate* const after = update()) after->slices_ended();
}

void DistributedReplica::register_hook(std::unique_ptr<CommunicationHook> hook) {
  const std::string where = communicator_->membership().where() + ", register_comm_hook";
  Features features;
  if (slices_) features.add(Feature::VirtualShards);
  if (update() != nullptr) features.add(Feature::Fuse);
  features.add(Feature::Hook).require_together(where);
  features.require_fused(where);
  CommunicationHook& registered = *hook;
  require_same_settings(*communicator_, "the communication hook", {"a " + c10::demangle(typeid(registered).name())});
  reducer_->register_hook(std::move(hook));
  hook_ = &registered;
  registered.attach(*communicator_);
}

FusedStep DistributedReplica::fuse(FlatOptimizer& optimizer, FuseOptions options) {
  const std::string where = communicator_->membership().where() + ", fuse";
  const UpdateRescue* const rescue = UpdateRescue::of(optimizer);
  if (update() != nullptr || optimizer.has_step_delegate()) {
    throw Error("an optimizer is fused already", where, "fuse one optimizer, once; unfuse takes it back");
  }
  if (optimizer.is_sharded() && (rescue == nullptr || !rescue->adopts())) {
    throw Error("this rank holds a part of the optimizer's state, and what updated the others' parts is gone", where,
                "call unfuse before the DistributedDataParallel goes, or build a new optimizer");
  }
  fused_.reset();
  fuse_reason_ = reason_not_to_fuse(optimizer, options, where);
  if (fuse_reason_.empty()) {
    auto fused = FusedUpdate::make(optimizer, *reducer_, communicator_, options, fuse_reason_, slices_.get());
    fused_ = std::make_shared<std::unique_ptr<FusedUpdate>>(std::move(fused));
  }
  if (deferred_) deferred_->check_made(*communicator_);
  if (update() == nullptr && communicator_->rank() == 0) {
    log_warning("fuse: {}; gradients are averaged in backward, and every rank updates all weights", fuse_reason_);
  }
  return fused_step();
}

// Empty if nothing speaks against it. Completes the options. @throws Error  if they are wrong
std::string DistributedReplica::reason_not_to_fuse(const FlatOptimizer& optimizer, FuseOptions& options,
                                                   const std::string& where) const {
  take_strategy(options, where);
  Features features;
  features.add(Feature::Fuse);
  if (options.stage == 3) features.add(Feature::Stage3);
  if (tensors_.is_script) features.add(Feature::TorchScript);
  if (hook_ != nullptr) features.add(Feature::Hook);
  features.require_together(where);
  if (options.stage == 3) {
    options.units = unit_names(options, tensors_);
  } else if (options.hybrid_shard) {
    unit_names(options, tensors_);  // a name that is wrong is an Error here, too
  }
  if (!options.compute_dtype) options.compute_dtype = options_.compute_dtype;
  if (UpdateRescue::of(optimizer) == nullptr && StateWatch::current() != nullptr) {
    return "the loop survives lost ranks, and ElasticState::optimizers does not have this optimizer, or has others, "
           "too";
  }
  const auto not_fused = features.reason_not_to_fuse();
  return not_fused ? not_fused->what : "";
}

// Whether a fused update that outlives ranks will bring memory for the gradients. Equal on all ranks.
bool DistributedReplica::fused_memory_follows() const {
  for (torch::optim::Optimizer* optimizer : optimizers_of(tensors_of(tensors_.parameters), {})) {
    const auto* const flat = dynamic_cast<const FlatOptimizer*>(optimizer);
    const UpdateRescue* const rescue = flat == nullptr ? nullptr : UpdateRescue::of(*flat);
    if (rescue != nullptr && rescue->refusal(*communicator_, {}, options_.virtual_shards != 0).empty()) return true;
  }
  return false;
}

}  // namespace lockstep
