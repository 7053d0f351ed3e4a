#include "lockstep/parallel/distributed_data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>

#include <typeinfo>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator/reduced_elements.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/state_watch.h"
#include "lockstep/parallel/deferred/deferred_parameters.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/hooks/same_settings.h"
#include "lockstep/parallel/reducer/parameter_watch.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/slices/slice_checks.h"
#include "lockstep/parallel/slices/slices.h"
#include "lockstep/parallel/wrapped_module.h"
#include "lockstep/parallel/wrapping.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {

DistributedDataParallelBase::DistributedDataParallelBase(ModuleTensors tensors, DistributedDataParallelOptions options)
    : communicator_(carrier_of_gradients(options.process_group ? options.process_group : default_group(), tensors)),
      options_(std::move(options)),
      tensors_(std::move(tensors)) {
  const UncountedReductions of_this_wrapper;
  for (const auto& entry : tensors_.parameters) names_.emplace_back(entry.name, entry.tensor);
  const auto& ignored = options_.parameters_and_buffers_to_ignore;
  tensors_.parameters = without(std::move(tensors_.parameters), ignored);
  const auto named_buffers = without(tensors_.buffers(), ignored);
  check_trainable(*communicator_, tensors_.parameters);
  check_equal_options(*communicator_, options_, tensors_);
  if (options_.virtual_shards != 0) check_slices(options_, tensors_, *communicator_);
  if (options_.init_sync && communicator_->world_size() > 1) {
    check_equal_across_ranks(*communicator_, tensors_.parameters, "parameter", /*compares_deferred=*/true);
    check_equal_buffers_across_ranks(*communicator_, named_buffers);
    deferred_ = std::make_unique<DeferredOfModule>(*communicator_, tensors_.parameters);
    std::vector<at::Tensor> all = deferred_->in_memory();
    for (const auto& entry : named_buffers) all.push_back(entry.tensor);
    broadcast_coalesced(*communicator_, all, 0);
    if (deferred_->is_empty()) deferred_.reset();
  }
  has_buffers_ = !named_buffers.empty();
  if (StateWatch* const watch = StateWatch::current()) watch->add(tensors_.parameters, named_buffers);
  ReducerOptions of_reducer = reducer_options(options_, *communicator_);
  wrapped_ = std::make_unique<WrappedModule>(communicator_, names_);
  of_reducer.module = wrapped_->number();
  of_reducer.gets_memory_later = gets_memory_later_ = fused_memory_follows();
  reducer_ = Reducer::make(reducer_parameters(tensors_), communicator_, of_reducer);
  if (!options_.watch_replicas) reducer_->backward().context().replicas.stop();
  if (has_buffers_) {
    reducer_->backward().context().replicas.watch_buffers([this]() -> std::vector<NamedTensor> {
      if (options_.broadcast_buffers && tensors_.is_training()) return {};
      return without(tensors_.buffers(), options_.parameters_and_buffers_to_ignore);
    });
  }
  watch_ = std::make_unique<ParameterWatch>(tensors_, ignored);
  if (options_.virtual_shards == 0) {
    // At the end, not at the beginning: batch normalisation keeps its averages for backward, and they must not change
    // before.
    reducer_->watch_plain_calls([this] { check_parameters(); },
                                [this] {
                                  if (tensors_.is_training()) synchronise_buffers(0);
                                },
                                [this] { return synchronise_; });
    return;
  }
  synchronise_ = false;
  slices_ = std::make_unique<Slices>(options_.virtual_shards, *reducer_, *communicator_,
                                     has_buffers_ ? tensors_.buffers : nullptr);
}

DistributedDataParallelBase::~DistributedDataParallelBase() = default;

void DistributedDataParallelBase::watch_output(const at::Tensor& output) { reducer_->watch_output(output); }

void DistributedDataParallelBase::after_forward() noexcept {
  if (ShardedWeights* const shards = sharded_weights()) shards->leave_forward();
}

void DistributedDataParallelBase::check_parameters() {
  if (const auto change = watch_->look()) end_group(*communicator_, change->what, change->fix);
}

std::vector<at::Tensor> DistributedDataParallelBase::buffers() const {
  return tensors_of(without(tensors_.buffers(), options_.parameters_and_buffers_to_ignore));
}

void DistributedDataParallelBase::synchronise_buffers(int root) {
  if (has_buffers_ && options_.broadcast_buffers && communicator_->world_size() > 1) {
    broadcast_buffers(*communicator_, buffers(), root, wrapped_->number());
  }
}

void DistributedDataParallelBase::before_forward() {
  prepare_forward();
  if (ShardedWeights* const shards = sharded_weights()) shards->enter_forward();
}

// Weights that no fused update has taken over.
void DistributedDataParallelBase::synchronise_deferred() {
  const std::unique_ptr<DeferredOfModule> deferred = std::move(deferred_);
  const auto is_left = [this](const at::Tensor& parameter) {
    return fuse_mode() == FuseMode::Off || !fused_->covers(parameter);
  };
  broadcast_coalesced(*communicator_, deferred->make(is_left), 0);
}

void DistributedDataParallelBase::prepare_forward() {
  if (!at::GradMode::is_enabled()) return;
  if (deferred_) synchronise_deferred();
  check_parameters();
  if (slices_) {
    note_forward_of_slice();
  } else if (fuse_mode() != FuseMode::Off) {
    fused_->before_forward();
  }
  reducer_->prepare(synchronise_, tensors_.is_training());
  // Only in training, because a rank may evaluate by itself.
  if (!synchronise_ || !tensors_.is_training()) return;
  reducer_->backward().meet("a forward",
                            [this] { synchronise_buffers(reducer_->backward().context().join.lowest_active_rank()); });
}

void DistributedDataParallelBase::note_forward_of_slice() {
  if (!slices_->is_in_slice()) {
    throw Error("forward was called outside of run_shards, so its gradients would not be added up",
                communicator_->membership().where() + ", virtual_shards",
                "call it in the body of run_shards; to evaluate, turn gradients off");
  }
  slices_->note_forward();
}

ShardRange DistributedDataParallelBase::shards() const { return slices_ ? slices_->plan().run() : ShardRange(); }

void DistributedDataParallelBase::run_shards(std::uint64_t update,
                                             const std::function<void(std::int64_t shard)>& body) {
  if (!slices_) {
    throw Error("run_shards needs virtual shards", communicator_->membership().where() + ", virtual_shards",
                "set DistributedDataParallelOptions::virtual_shards");
  }
  bool are_zero = false;
  if (std::exchange(gets_memory_later_, false) && fuse_mode() == FuseMode::Off) reducer_->use_group_memory();
  if (fuse_mode() != FuseMode::Off) {
    are_zero = fused_->gradients_are_zero();
    fused_->before_forward();
    fused_->gradients_dropped();
  }
  slices_->run(update, are_zero, body);
  if (fuse_mode() != FuseMode::Off) fused_->slices_ended();
}

void DistributedDataParallelBase::follow_backward() {
  Features features;
  if (slices_) features.add(Feature::VirtualShards);
  features.add(Feature::FollowBackward).require_together(communicator_->membership().where() + ", follow_backward");
  reducer_->follow_backward();
}

void DistributedDataParallelBase::note_access() {
  if (!slices_ && at::GradMode::is_enabled()) reducer_->note_access();
}

void DistributedDataParallelBase::register_comm_hook(std::unique_ptr<CommunicationHook> hook) {
  const std::string where = communicator_->membership().where() + ", register_comm_hook";
  Features features;
  if (slices_) features.add(Feature::VirtualShards);
  if (fuse_mode() != FuseMode::Off) features.add(Feature::Fuse);
  features.add(Feature::Hook).require_together(where);
  features.require_fused(where);
  CommunicationHook& registered = *hook;
  require_same_settings(*communicator_, "the communication hook", {"a " + c10::demangle(typeid(registered).name())});
  reducer_->register_hook(std::move(hook));
  hook_ = &registered;
  registered.attach(*communicator_);
}

void DistributedDataParallelBase::load_comm_hook_state(const HookState& state) {
  if (hook_ != nullptr) return hook_->load_state(state);
  if (!state.empty()) refuse_hook_state("that is registered", "none is registered here");
}

const StepStatistics& DistributedDataParallelBase::last_step() const {
  return reducer_->backward().context().statistics;
}

std::vector<std::vector<std::string>> DistributedDataParallelBase::bucket_names() const {
  const GradientBuckets& buckets = reducer_->backward().buckets();
  std::vector<std::vector<std::string>> names;
  for (std::size_t i = 0; i < buckets.size(); ++i) names.push_back(buckets[i].contents.names);
  return names;
}

}  // namespace lockstep
