// FusedUpdate: takes over buckets and weights, and gives them back.
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/fused/fuse_checks.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/fused/gradients/placed_gradients.h"
#include "lockstep/parallel/fused/gradients/pooled_gradients.h"
#include "lockstep/parallel/fused/memory/message_memory.h"
#include "lockstep/parallel/fused/memory/published_copies.h"
#include "lockstep/parallel/fused/memory/tree_memory.h"
#include "lockstep/parallel/fused/recovery/recoverable_pass.h"
#include "lockstep/parallel/fused/weights/sharded_copies_part.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/fused/weights/whole_weights.h"
#include "lockstep/parallel/fused/written_weights.h"
#include "lockstep/parallel/update/plain_pass.h"
#include "lockstep/parallel/update/rank_norm.h"
#include "lockstep/parallel/update/replicas_part.h"
#include "lockstep/parallel/update/slices_part.h"

namespace lockstep {

const char* to_string(FuseMode mode) {
  switch (mode) {
    case FuseMode::SharedWeights:
      return "shared weights";
    case FuseMode::ShardedState:
      return "sharded state";
    case FuseMode::Off:
      break;
  }
  return "off";
}

namespace {

void check_stage(const FuseOptions& options, const Communicator& communicator) {
  const std::string where = communicator.membership().where() + ", fuse";
  if (options.stage < 1 || options.stage > 3) {
    throw Error(fmt::format("stage is {}", options.stage), where,
                "choose 1, which shards the optimizer's state, 2, which shards gradients too, or 3, which shards also "
                "weights");
  }
  if (options.slots < 1) throw Error("slots is 0", where, "choose at least 1; 4 is the default");
}

}  // namespace

FusedUpdate::FusedUpdate(FlatOptimizer& optimizer, Reducer& reducer, std::shared_ptr<Communicator> communicator,
                         const Slices* slices)
    : context_(optimizer, reducer, std::move(communicator)),
      slices_(slices),
      stale_(context_.agreement.any()),
      selection_(context_.gradients.num_parameters()) {
  if (slices != nullptr) parts_.add<SlicesPart>(context_, *slices);
  terms_ = &parts_.add<UpdateTerms>(context_);
  if (slices != nullptr) {
    norm_ = std::make_unique<SliceNorm>(context_);
  } else {
    norm_ = std::make_unique<RankNorm>(context_);
  }
}

FusedUpdate::~FusedUpdate() { release(is_active_ && pass_->memory_stays()); }

std::unique_ptr<FusedUpdate> FusedUpdate::make(FlatOptimizer& optimizer, Reducer& reducer,
                                               const std::shared_ptr<Communicator>& communicator, FuseOptions options,
                                               std::string& reason, const Slices* slices) {
  const at::ScalarType dtype = options.gradient_dtype;
  const at::ScalarType computed = options.compute_dtype.value_or(at::ScalarType::Float);
  if (dtype != at::ScalarType::Float && dtype != at::ScalarType::BFloat16 && dtype != at::ScalarType::Half) {
    throw Error(fmt::format("gradient_dtype is {}", c10::toString(dtype)),
                communicator->membership().where() + ", fuse", "choose Float, BFloat16 or Half");
  }
  if (computed != at::ScalarType::Float && computed != at::ScalarType::BFloat16) {
    throw Error(fmt::format("compute_dtype is {}", c10::toString(computed)),
                communicator->membership().where() + ", fuse", "choose Float or BFloat16");
  }
  check_stage(options, *communicator);
  std::unique_ptr<FusedUpdate> fused(new FusedUpdate(optimizer, reducer, communicator, slices));
  if (communicator->world_size() > 1) fused->terms_->check_equal(lines_of(options));
  const GradientBuckets& gradients = reducer.buckets();
  std::vector<FusedBucket>& buckets = fused->context_.buckets;
  buckets = choose_fused_buckets(gradients, optimizer, *communicator);
  std::vector<at::Tensor> chosen;
  std::vector<NamedTensor> named;
  for (const FusedBucket& bucket : buckets) {
    for (const std::size_t i : bucket.parameters) {
      chosen.push_back(gradients.parameter(i));
      named.push_back(gradients.parameters()[i]);
    }
  }
  check_no_shared_memory(chosen);
  if (communicator->world_size() > 1) check_equal_across_ranks(*communicator, named, "parameter of the optimizer");
  if (chosen.empty()) {
    reason = why_no_bucket(gradients);
    return nullptr;
  }
  check_hybrid_shard(options, buckets, gradients, *communicator);
  reason = refusal_of_twice_listed(optimizer, gradients);
  if (reason.empty() && slices != nullptr) reason = SlicesPart::refusal(fused->context_, options);
  UpdateRescue* const rescue = UpdateRescue::of(optimizer);
  if (rescue != nullptr && reason.empty()) reason = rescue->refusal(*communicator, options, slices != nullptr);
  if (!reason.empty()) return nullptr;
  if (communicator->rank() == 0) warn_of_kept_views(buckets, gradients);
  RecoverablePass* recovery = nullptr;
  if (rescue != nullptr) {
    auto pass = std::make_unique<RecoverablePass>(fused->context_, *rescue, slices->plan().tree().slices());
    recovery = pass.get();
    fused->pass_ = std::move(pass);
  } else {
    fused->pass_ = std::make_unique<PlainPass>(fused->context_);
  }
  fused->is_active_ = true;
  try {
    fused->take_over(options, recovery);
  } catch (const Error& error) {
    // Memory is short on some rank, and all ranks know it. If instead the group has ended, the next call reports that.
    reason = error.happened();
    const bool group_has_ended = cause_of(error) != nullptr;
    fused->release(fused->pass_->stays_unmade(group_has_ended));
    fused->pass_->abandon(std::current_exception(), group_has_ended);
    return nullptr;
  }
  return fused;
}

void FusedUpdate::take_over(const FuseOptions& options, RecoverablePass* recovery) {
  GradientPool pool;
  if (recovery != nullptr) {
    recovery->open_memory();
  } else if (options.stage >= 2) {
    pool = GradientPool(context_.buckets, options.gradient_dtype, options.slots, context_.gradients,
                        *context_.communicator);
  } else {
    place_gradients(options.gradient_dtype);
  }
  share_out(options, recovery != nullptr ? &recovery->hosts() : nullptr);
  ShardedCopies* copies_of_shards = nullptr;
  if (context_.plan.shards_weights) {
    auto weights = std::make_unique<ShardedWeights>(
        ShardedWeights::Parts{context_.gradients, context_.buckets, context_.communicator,
                              context_.plan.gathers_for_host, context_.reducer.follows_backward(), context_.plan,
                              options.compute_dtype == at::ScalarType::BFloat16,
                              [this] { return context_.reducer.position(); }},
        options.units, options.reshard_after_forward);
    copies_of_shards = weights->copies();
    context_.weights = std::move(weights);
  }
  const bool has_weights = recovery != nullptr && recovery->has_weights();
  context_.memory = context_.weights ? make_message_memory(context_.plan, context_.buckets, *context_.communicator, {})
                                     : make_fused_memory(context_.plan, context_.buckets, context_.gradients,
                                                         *context_.communicator, has_weights);
  if (recovery != nullptr) recovery->weights_are_here();
  if (slices_ != nullptr)
    context_.memory =
        make_tree_memory(context_.plan, context_.buckets, *slices_, *context_.communicator, std::move(context_.memory));
  std::vector<at::Tensor> watched(context_.gradients.num_parameters());
  std::vector<FusedSegment> segments = make_segments(watched);
  context_.start_watching(std::move(watched));
  if (!context_.weights) context_.weights = std::make_unique<WholeWeights>(context_);
  parts_.add<WrittenWeights>(context_);
  context_.own_gradients = make_gradients(std::move(pool));
  if (copies_of_shards != nullptr) {
    parts_.add<ShardedCopiesPart>(context_, *copies_of_shards);
  } else if (options.compute_dtype == at::ScalarType::BFloat16 && !context_.plan.shards_weights &&
             (recovery == nullptr || recovery->may_publish_copies())) {
    parts_.add<PublishedCopies>(context_);
  }
  parts_.add<ReplicasPart>(context_);
  if (recovery != nullptr) recovery->place_state(segments);
  context_.optimizer.shard(std::move(segments));
  if (recovery != nullptr) recovery->begin();
  context_.optimizer.set_step_delegate(this);
  std::vector<std::size_t> indices;
  for (const FusedBucket& bucket : context_.buckets) indices.push_back(bucket.index);
  context_.reducer.hand_over(indices, *context_.own_gradients);
  terms_->keep_groups();
}

// @param watched  by parameter: becomes those that are fused
std::vector<FusedSegment> FusedUpdate::make_segments(std::vector<at::Tensor>& watched) {
  std::vector<FusedSegment> segments;
  for (const FusedBucket& bucket : context_.buckets) {
    // Of the whole update, if each host makes one.
    const Region& part = context_.plan.outlives_group ? bucket.filled : bucket.own;
    FusedSegment segment{{}, bucket.offsets, part.begin, part.end};
    for (const std::size_t i : bucket.parameters) {
      watched[i] = context_.gradients.parameter(i);
      segment.parameters.push_back(watched[i]);
      context_.covered.emplace(watched[i].unsafeGetTensorImpl(), i);
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::unique_ptr<FusedGradients> FusedUpdate::make_gradients(GradientPool pool) {
  if (!context_.plan.gives_buckets_back) {
    return std::make_unique<PlacedGradients>(context_);
  }
  return std::make_unique<PooledGradients>(context_, std::move(pool));
}

// fp64 weights keep gradients in fp64.
void FusedUpdate::place_gradients(at::ScalarType dtype) {
  for (FusedBucket& bucket : context_.buckets) {
    const at::ScalarType own = context_.gradients.parameter(bucket.parameters.front()).scalar_type();
    context_.gradients.use_dtype(bucket.index, own == at::ScalarType::Float ? dtype : own);
    bucket.gradients = context_.gradients[bucket.index].memory;
  }
}

// Makes the plan, and gives each bucket this rank's parts.
void FusedUpdate::share_out(const FuseOptions& options, const MemoryHosts* outliving) {
  std::vector<at::Tensor> memory;
  for (const FusedBucket& bucket : context_.buckets) memory.push_back(bucket.gradients);
  context_.plan = plan_update(memory, *context_.communicator, options.share_weights, options.stage, outliving);
  for (std::size_t i = 0; i < context_.buckets.size(); ++i) {
    context_.buckets[i].own = context_.plan.region(i, context_.communicator->rank());
    context_.buckets[i].filled = context_.plan.filled_part(i, context_.communicator->rank());
  }
}

void FusedUpdate::release(bool memory_stays) noexcept {
  if (!std::exchange(is_active_, false)) return;
  if (context_.optimizer.step_delegate() == this) context_.optimizer.set_step_delegate(nullptr);
  try {
    const at::NoGradGuard no_grad;
    if (context_.own_gradients) context_.own_gradients->leave();
    context_.reducer.take_back(!memory_stays);
    if (context_.weights && !memory_stays) context_.weights->leave();
  } catch (const std::exception& error) {
    log_warning("the weights stay in memory that the ranks share: {}", error.what());
  }
  pass_->leave();
  parts_.clear();
  context_.own_gradients.reset();
  context_.end();
}

// As after a backward without `fuse`: the averages, and what this rank has added since.
void FusedUpdate::show_averages(const std::vector<at::Tensor>& averages) {
  for (std::size_t i = 0; i < averages.size(); ++i) {
    if (!averages[i].defined()) continue;
    context_.gradients.take(i);
    context_.gradients.place(i).add_(averages[i]);
    context_.gradients.show(i);
  }
}

void FusedUpdate::optimizer_destroyed() noexcept {
  context_.optimizer.set_step_delegate(nullptr);
  release();
}

void FusedUpdate::unfuse() {
  guarded([&] {
    FlatOptimizer& optimizer = context_.optimizer;
    const NamedParameters names = numbered_parameters(optimizer);
    const NamedState state = pass_->whole_state(names);
    const std::vector<at::Tensor> averages = context_.own_gradients->gather();
    context_.weights->give_back();
    release();
    show_averages(averages);
    optimizer.unshard(names, state);
    pass_->let_go();
    // No rank may write its weights before all ranks have their own.
    if (context_.communicator->world_size() > 1) context_.communicator->barrier();
  });
}

void FusedUpdate::unfuse_weights() {
  guarded([&] {
    // Gradients first: what they take is free when whole weights need memory.
    context_.own_gradients->leave();
    context_.reducer.take_back();
    context_.own_gradients.reset();
    context_.weights->give_back();
    release();
    if (context_.communicator->world_size() > 1) context_.communicator->barrier();  // as in unfuse
  });
}

}  // namespace lockstep
