#include "lockstep/parallel/distributed_data_parallel.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/wrapper/distributed_replica.h"
#include "lockstep/parallel/wrapper/uneven_loop.h"

namespace lockstep {
namespace {

const char* const kDdp = "DistributedDataParallel";

}  // namespace

DistributedDataParallelBase::DistributedDataParallelBase() = default;
DistributedDataParallelBase::DistributedDataParallelBase(ModuleTensors tensors, DistributedDataParallelOptions options)
    : replica_(std::make_unique<DistributedReplica>(std::move(tensors), std::move(options))) {}
DistributedDataParallelBase::~DistributedDataParallelBase() = default;
DistributedDataParallelBase::DistributedDataParallelBase(DistributedDataParallelBase&& other) noexcept = default;
DistributedDataParallelBase& DistributedDataParallelBase::operator=(DistributedDataParallelBase&& other) noexcept =
    default;

DistributedReplica& DistributedDataParallelBase::replica() const {
  if (replica_) return *replica_;
  throw Error("this DistributedDataParallel is empty: it was made without a module, or moved from", kDdp,
              "assign one to it first, on every rank: ddp = lockstep::DistributedDataParallel(model)");
}

void DistributedDataParallelBase::require_module(bool exists) {
  if (exists) return;
  throw Error("the module to wrap is null", kDdp,
              "make the module first: auto model = std::make_shared<Net>(), or Net model for a module holder");
}

void DistributedDataParallelBase::before_forward() { replica().before_forward(); }
void DistributedDataParallelBase::after_forward() noexcept { replica_->after_forward(); }
void DistributedDataParallelBase::watch_output(const at::Tensor& output) { replica().reducer().watch_output(output); }
void DistributedDataParallelBase::note_access() { replica().note_access(); }
void DistributedDataParallelBase::follow_backward() { replica().follow_backward(); }

DistributedDataParallelBase::NoSync DistributedDataParallelBase::no_sync() { return NoSync(replica().synchronises()); }

int DistributedDataParallelBase::join(const std::function<void()>& loop, const JoinOptions& options) {
  return run_uneven_loop(replica(), loop, options);
}

void DistributedDataParallelBase::register_comm_hook(std::unique_ptr<CommunicationHook> hook) {
  replica().register_hook(std::move(hook));
}

HookState DistributedDataParallelBase::comm_hook_state() const {
  const CommunicationHook* const hook = replica().hook();
  return hook == nullptr ? HookState() : hook->state();
}

void DistributedDataParallelBase::load_comm_hook_state(const HookState& state) {
  if (CommunicationHook* const hook = replica().hook()) return hook->load_state(state);
  if (!state.empty()) refuse_hook_state("that is registered", "none is registered here");
}

bool DistributedDataParallelBase::replicas_may_differ() const {
  const CommunicationHook* const hook = replica().hook();
  return hook != nullptr && !hook->allows_join();
}

FusedStep DistributedDataParallelBase::fuse(FlatOptimizer& optimizer, FuseOptions options) {
  return replica().fuse(optimizer, std::move(options));
}

FusedStep DistributedDataParallelBase::fuse(torch::optim::Optimizer& optimizer, FuseOptions options) {
  if (auto* flat = dynamic_cast<FlatOptimizer*>(&optimizer)) return fuse(*flat, std::move(options));
  throw Error("the optimizer is not one of Lockstep's, whose step the ranks can share",
              process_group().membership().where() + ", fuse",
              "build a lockstep::Adam, lockstep::AdamW or lockstep::SGD with the same options");
}

FusedStep DistributedDataParallelBase::fused_step() const { return replica().fused_step(); }

NamedState DistributedDataParallelBase::optimizer_state(const FlatOptimizer& optimizer) const {
  return gather_optimizer_state(process_group(), optimizer, named_parameters());
}

const NamedParameters& DistributedDataParallelBase::named_parameters() const { return replica().names(); }

ShardRange DistributedDataParallelBase::shards() const {
  const Slices* const slices = replica().slices();
  return slices == nullptr ? ShardRange() : slices->plan().run();
}

void DistributedDataParallelBase::run_shards(std::uint64_t update,
                                             const std::function<void(std::int64_t shard)>& body) {
  replica().run_shards(update, body);
}

const StepStatistics& DistributedDataParallelBase::last_step() const {
  return replica().reducer().backward().context().statistics;
}

std::vector<std::vector<std::string>> DistributedDataParallelBase::bucket_names() const {
  const GradientBuckets& buckets = replica().reducer().backward().buckets();
  std::vector<std::vector<std::string>> names;
  for (std::size_t i = 0; i < buckets.size(); ++i) names.push_back(buckets[i].contents.names);
  return names;
}

Communicator& DistributedDataParallelBase::process_group() const { return replica().communicator(); }

}  // namespace lockstep
