#include "lockstep/parallel/distributed_data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/deferred/deferred_parameters.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/parallel/reducer/parameter_watch.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/shards/shard_checks.h"
#include "lockstep/parallel/shards/virtual_shards.h"
#include "lockstep/parallel/uneven_inputs.h"
#include "lockstep/parallel/wrapping.h"

namespace lockstep {
namespace {

std::vector<at::Tensor> plain(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& entry : tensors) result.push_back(entry.tensor);
  return result;
}

}  // namespace

DistributedDataParallelBase::DistributedDataParallelBase(ModuleTensors tensors, DistributedDataParallelOptions options)
    : communicator_(carrier_of_gradients(options.process_group ? options.process_group : default_group(), tensors)),
      options_(std::move(options)),
      tensors_(std::move(tensors)) {
  for (const auto& entry : tensors_.parameters) names_.emplace_back(entry.name, entry.tensor);
  const auto& ignored = options_.parameters_and_buffers_to_ignore;
  tensors_.parameters = without(std::move(tensors_.parameters), ignored);
  const auto named_buffers = without(tensors_.buffers(), ignored);
  check_trainable(*communicator_, tensors_.parameters);
  check_equal_options(*communicator_, options_, tensors_);
  if (options_.virtual_shards != 0) check_virtual_shards(options_, tensors_, *communicator_);
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
  ReducerOptions of_reducer = reducer_options(options_, communicator_->membership());
  of_reducer.gets_memory_later = gets_memory_later_ = fused_memory_follows();
  reducer_ = Reducer::make(reducer_parameters(tensors_), communicator_, of_reducer);
  if (!options_.watch_replicas) reducer_->replica_watch().stop();
  if (has_buffers_) {
    reducer_->replica_watch().watch_buffers([this]() -> std::vector<NamedTensor> {
      if (options_.broadcast_buffers && tensors_.is_training()) return {};
      return without(tensors_.buffers(), options_.parameters_and_buffers_to_ignore);
    });
  }
  watch_ = std::make_unique<ParameterWatch>(tensors_, ignored);
  if (options_.virtual_shards == 0) return;
  synchronise_ = false;
  shards_ = std::make_unique<VirtualShards>(options_.virtual_shards, *reducer_, *communicator_,
                                            has_buffers_ ? tensors_.buffers : nullptr);
}

DistributedDataParallelBase::~DistributedDataParallelBase() = default;

FuseMode DistributedDataParallelBase::fuse_mode() const { return fused_ ? fused_->mode() : FuseMode::Off; }

bool DistributedDataParallelBase::has_sent_gradients() const {
  return fuse_mode() != FuseMode::Off && fused_->has_sent_gradients();
}

void DistributedDataParallelBase::watch_output(const at::Tensor& output) { reducer_->watch_output(output); }

void DistributedDataParallelBase::after_forward() noexcept {
  if (ShardedWeights* const shards = sharded_weights()) shards->leave_forward();
}

ShardedWeights* DistributedDataParallelBase::sharded_weights() const {
  return fuse_mode() == FuseMode::Off ? nullptr : fused_->shards();
}

bool DistributedDataParallelBase::unshard() {
  ShardedWeights* const shards = sharded_weights();
  if (shards == nullptr || shards->keeps_all()) return false;
  shards->gather_all();
  return true;
}

void DistributedDataParallelBase::reshard() {
  if (ShardedWeights* const shards = sharded_weights()) shards->free_all();
}

TensorParts DistributedDataParallelBase::weight_parts() {
  ShardedWeights* const shards = sharded_weights();
  return shards == nullptr ? TensorParts() : shards->own_parts();
}

void DistributedDataParallelBase::write_weight_parts(const std::function<void(const TensorParts&)>& write) {
  if (fuse_mode() != FuseMode::Off) fused_->write_weight_parts(write);
}

std::int64_t DistributedDataParallelBase::peak_weight_bytes() const {
  const ShardedWeights* const shards = sharded_weights();
  return shards == nullptr ? 0 : shards->peak_bytes();
}

// Whether a fused update that outlives ranks will bring memory for the gradients. Equal on all ranks.
bool DistributedDataParallelBase::fused_memory_follows() const {
  for (torch::optim::Optimizer* optimizer : optimizers_of(plain(tensors_.parameters), {})) {
    const auto* const flat = dynamic_cast<const FlatOptimizer*>(optimizer);
    const UpdateRescue* const rescue = flat == nullptr ? nullptr : UpdateRescue::of(*flat);
    if (rescue != nullptr && rescue->refusal(*communicator_, {}, options_.virtual_shards != 0).empty()) return true;
  }
  return false;
}

void DistributedDataParallelBase::check_parameters() {
  if (const auto change = watch_->look()) end_group(*communicator_, change->what, change->fix);
}

std::vector<at::Tensor> DistributedDataParallelBase::buffers() const {
  return plain(without(tensors_.buffers(), options_.parameters_and_buffers_to_ignore));
}

void DistributedDataParallelBase::synchronise_buffers(int root) {
  if (has_buffers_ && options_.broadcast_buffers && communicator_->world_size() > 1) {
    broadcast_coalesced(*communicator_, buffers(), root);
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
  if (shards_) {
    note_forward_of_shard();
  } else if (fuse_mode() != FuseMode::Off) {
    fused_->before_forward();
  }
  reducer_->prepare(synchronise_);
  // Only in training, because a rank may evaluate by itself.
  if (!synchronise_ || !tensors_.is_training()) return;
  advise_on_uneven_inputs([this] { synchronise_buffers(reducer_->join_period().lowest_active_rank()); });
}

void DistributedDataParallelBase::note_forward_of_shard() {
  if (!shards_->is_in_shard()) {
    throw Error("a forward outside of run_shards, whose gradients nobody would add up",
                communicator_->membership().where() + ", virtual_shards",
                "call it in the body of run_shards; to evaluate, turn gradients off");
  }
  shards_->note_forward();
}

ShardRange DistributedDataParallelBase::shards() const { return shards_ ? shards_->plan().run() : ShardRange(); }

void DistributedDataParallelBase::run_shards(std::uint64_t update,
                                             const std::function<void(std::int64_t shard)>& body) {
  if (!shards_) {
    throw Error("run_shards without virtual shards", communicator_->membership().where() + ", virtual_shards",
                "set DistributedDataParallelOptions::virtual_shards");
  }
  bool are_zero = false;
  if (std::exchange(gets_memory_later_, false) && fuse_mode() == FuseMode::Off) reducer_->use_group_memory();
  if (fuse_mode() != FuseMode::Off) {
    are_zero = fused_->gradients_are_zero();
    fused_->before_forward();
    fused_->gradients_dropped();
  }
  shards_->run(update, are_zero, body);
  if (fuse_mode() != FuseMode::Off) fused_->shards_ended();
}

void DistributedDataParallelBase::follow_backward() {
  if (shards_) refuse_with_shards(*communicator_, "follow_backward", "which knows no shards");
  // At the end, not at the beginning: batch normalisation keeps its averages for backward, and they must not change
  // before.
  reducer_->follow_backward([this] { check_parameters(); },
                            [this] {
                              if (tensors_.is_training()) synchronise_buffers(0);
                            });
}

int DistributedDataParallelBase::join(const std::function<void()>& loop, JoinOptions options) {
  if (shards_) refuse_with_shards(*communicator_, "join", "whose ranks run out of inputs one after the other");
  if (!reducer_->allows_join()) {
    throw Error("the communication hook leaves the ranks apart, so that none learns when another has run out of inputs",
                communicator_->membership().where() + ", join",
                "give all ranks the same number of inputs, or take a hook that averages in every step");
  }
  if (sharded_weights() != nullptr) {
    throw Error(
        "join with weights in shards (stage 3): a rank that has run out of inputs would gather no layer, and "
        "the others would wait for it",
        communicator_->membership().where() + ", join", "give all ranks the same number of inputs, or choose stage 2");
  }
  JoinPeriod& period = reducer_->join_period();
  period.begin(!options.divide_by_initial_world_size);
  loop();
  int last_active = communicator_->rank();
  bool was_through_early = false;
  for (bool all_joined = communicator_->world_size() == 1; !all_joined;) {
    last_active = period.lowest_active_rank();
    synchronise_buffers(last_active);
    all_joined = reducer_->shadow_backward();
    if (!all_joined && fuse_mode() != FuseMode::Off) all_joined = fused_->shadow_update();
    was_through_early = was_through_early || !all_joined;
  }
  period.end();
  if (communicator_->world_size() > 1) take_over_from(last_active, options, was_through_early);
  return last_active;
}

// A rank that finished early has missed updates of the weights and of the optimizers.
void DistributedDataParallelBase::take_over_from(int last, const JoinOptions& options, bool was_through_early) {
  std::vector<at::Tensor> all;
  for (const auto& entry : tensors_.parameters) {
    if (!fused_ || !fused_->covers(entry.tensor)) all.push_back(entry.tensor);
  }
  for (auto& buffer : buffers()) all.push_back(std::move(buffer));
  broadcast_coalesced(*communicator_, all, last);

  const auto optimizers = optimizers_of(plain(tensors_.parameters), options.optimizers);
  const NamedTensor* missing = first_without_optimizer(tensors_.parameters, optimizers);
  const auto longs = at::TensorOptions().dtype(at::kLong);
  at::Tensor mine = at::empty({2}, longs), everyone = at::empty({communicator_->world_size() * 2}, longs);
  mine.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(optimizers.size());
  mine.data_ptr<std::int64_t>()[1] = was_through_early ? 1 : 0;
  communicator_->all_gather(everyone, mine);
  bool is_uneven = false;
  for (int rank = 0; rank < communicator_->world_size(); ++rank) {
    const std::int64_t* of_rank = everyone.data_ptr<std::int64_t>() + 2 * rank;
    is_uneven = is_uneven || of_rank[1] != 0;
    if (of_rank[0] == everyone.data_ptr<std::int64_t>()[0]) continue;
    throw Error(fmt::format("rank {} knows {} optimizers over the module, and rank 0 knows {}", rank, of_rank[0],
                            everyone.data_ptr<std::int64_t>()[0]),
                communicator_->membership().where() + ", join",
                "build the same optimizers, and name the same ones in JoinOptions::optimizers, on every rank");
  }
  for (torch::optim::Optimizer* optimizer : optimizers) broadcast_optimizer(*communicator_, *optimizer, last);
  if (missing != nullptr && is_uneven && communicator_->rank() == 0) {
    log_warning(
        "join: ranks made different numbers of steps, and what updates parameter \"{}\" is not known: if that "
        "optimizer keeps state, such as momentum, it differs between the ranks now, and so will the weights. Name it "
        "in JoinOptions::optimizers",
        missing->name);
  }
}

FuseMode DistributedDataParallelBase::fuse(FlatOptimizer& optimizer, FuseOptions options) {
  const std::string where = communicator_->membership().where() + ", fuse";
  const UpdateRescue* const rescue = UpdateRescue::of(optimizer);
  const bool is_left_over = optimizer.is_sharded() && (rescue == nullptr || !rescue->adopts());
  if (fuse_mode() != FuseMode::Off || optimizer.has_step_delegate() || is_left_over) {
    throw Error("an optimizer is fused already", where, "fuse one optimizer, once; unfuse takes it back");
  }
  fused_.reset();
  if (options.stage == 3) {
    if (tensors_.is_script) {
      throw Error("stage 3 of a TorchScript module, whose operations may read weights past LibTorch's dispatcher",
                  where, "choose stage 2, or build the module in C++");
    }
    options.units = unit_names(options, tensors_);
  } else if (options.hybrid_shard) {
    unit_names(options, tensors_);  // a name that is wrong is an Error here, too
  }
  if (!options.compute_dtype) options.compute_dtype = options_.compute_dtype;
  fuse_reason_ = reducer_->has_hook() ? "a communication hook is registered, which the step would pass by" : "";
  if (fuse_reason_.empty()) {
    fused_ = FusedUpdate::make(optimizer, *reducer_, communicator_, options, fuse_reason_, shards_.get());
  }
  if (deferred_) deferred_->check_made(*communicator_);
  if (!fused_ && communicator_->rank() == 0) {
    log_warning("fuse: {}; gradients are averaged in backward, and every rank updates all weights", fuse_reason_);
  }
  return fuse_mode();
}

FuseMode DistributedDataParallelBase::fuse(torch::optim::Optimizer& optimizer, FuseOptions options) {
  if (auto* flat = dynamic_cast<FlatOptimizer*>(&optimizer)) return fuse(*flat, options);
  throw Error("the optimizer is not one of Lockstep's, whose step the ranks can share",
              communicator_->membership().where() + ", fuse",
              "build a lockstep::Adam, lockstep::AdamW or lockstep::SGD with the same options");
}

void DistributedDataParallelBase::unfuse() {
  if (fuse_mode() != FuseMode::Off) fused_->unfuse();
  fused_.reset();
}

void DistributedDataParallelBase::unfuse_weights() {
  if (fuse_mode() != FuseMode::Off) fused_->unfuse_weights();
  fused_.reset();
}

void DistributedDataParallelBase::own_weights() {
  if (fuse_mode() != FuseMode::Off) fused_->own_weights();
}

NamedState DistributedDataParallelBase::optimizer_state(const FlatOptimizer& optimizer) const {
  return gather_optimizer_state(*communicator_, optimizer, names_);
}

void DistributedDataParallelBase::register_comm_hook(std::unique_ptr<CommunicationHook> hook) {
  if (shards_)
    refuse_with_shards(*communicator_, "a communication hook", "which adds gradients in an order of its own");
  if (fuse_mode() != FuseMode::Off) {
    throw Error("an optimizer is fused, whose step would pass a communication hook by",
                communicator_->membership().where() + ", DistributedDataParallel",
                "register the hook instead of calling fuse, or call unfuse first");
  }
  CommunicationHook& registered = *hook;
  reducer_->register_hook(std::move(hook));
  hook_ = &registered;
  registered.attach(*communicator_);
}

void DistributedDataParallelBase::load_comm_hook_state(const HookState& state) {
  if (hook_ != nullptr) return hook_->load_state(state);
  if (!state.empty()) refuse_hook_state("that is registered", "none is registered here");
}

const StepStatistics& DistributedDataParallelBase::last_step() const { return reducer_->statistics(); }

std::vector<std::vector<std::string>> DistributedDataParallelBase::bucket_names() const {
  const GradientBuckets& buckets = reducer_->buckets();
  std::vector<std::vector<std::string>> names;
  for (std::size_t i = 0; i < buckets.size(); ++i) names.push_back(buckets[i].contents.names);
  return names;
}

}  // namespace lockstep
