#include "lockstep/parallel/update/update_maker.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/fused/fuse_checks.h"
#include "lockstep/parallel/fused/gradients/placed_gradients.h"
#include "lockstep/parallel/fused/gradients/pooled_gradients.h"
#include "lockstep/parallel/fused/memory/message_memory.h"
#include "lockstep/parallel/fused/memory/published_copies.h"
#include "lockstep/parallel/fused/memory/tree_memory.h"
#include "lockstep/parallel/fused/weights/sharded_copies_part.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/fused/weights/whole_weights.h"
#include "lockstep/parallel/fused/written_weights.h"
#include "lockstep/parallel/update/plain_pass.h"
#include "lockstep/parallel/update/rank_norm.h"
#include "lockstep/parallel/update/replicas_part.h"
#include "lockstep/parallel/update/slices_part.h"

namespace lockstep {

UpdateMaker::UpdateMaker(UpdateContext& context, PartList& parts, FuseOptions options, const Slices* slices)
    : context_(context), parts_(parts), options_(std::move(options)), slices_(slices) {
  if (slices != nullptr) {
    parts_.add<SlicesPart>(context_);
    context_.norm = std::make_unique<SliceNorm>(context_);
  } else {
    context_.norm = std::make_unique<RankNorm>(context_);
  }
  terms_ = &parts_.add<UpdateTerms>(context_);
}

void UpdateMaker::check_options() const {
  const at::ScalarType dtype = options_.gradient_dtype;
  const at::ScalarType computed = options_.compute_dtype.value_or(at::ScalarType::Float);
  if (dtype != at::ScalarType::Float && dtype != at::ScalarType::BFloat16 && dtype != at::ScalarType::Half) {
    throw Error(fmt::format("gradient_dtype is {}", c10::toString(dtype)),
                context_.communicator->membership().where() + ", fuse", "choose Float, BFloat16 or Half");
  }
  if (computed != at::ScalarType::Float && computed != at::ScalarType::BFloat16) {
    throw Error(fmt::format("compute_dtype is {}", c10::toString(computed)),
                context_.communicator->membership().where() + ", fuse", "choose Float or BFloat16");
  }
  const std::string where = context_.communicator->membership().where() + ", fuse";
  if (options_.stage < 1 || options_.stage > 3) {
    throw Error(fmt::format("stage is {}", options_.stage), where,
                "choose 1, which shards the optimizer's state, 2, which shards gradients too, or 3, which shards also "
                "weights");
  }
  if (options_.slots < 1) throw Error("slots is 0", where, "choose at least 1; 4 is the default");
}

std::string UpdateMaker::refusal() {
  check_options();
  Communicator& communicator = *context_.communicator;
  if (communicator.world_size() > 1) terms_->check_equal(lines_of(options_));
  const GradientBuckets& gradients = context_.gradients;
  std::vector<FusedBucket>& buckets = context_.buckets;
  buckets = choose_fused_buckets(gradients, context_.optimizer, communicator);
  std::vector<at::Tensor> chosen;
  std::vector<NamedTensor> named;
  for (const FusedBucket& bucket : buckets) {
    for (const std::size_t i : bucket.parameters) {
      chosen.push_back(gradients.parameter(i));
      named.push_back(gradients.parameters()[i]);
    }
  }
  check_no_shared_memory(chosen);
  if (communicator.world_size() > 1) check_equal_across_ranks(communicator, named, "parameter of the optimizer");
  if (chosen.empty()) return why_no_bucket(gradients);
  check_hybrid_shard(options_, buckets, gradients, communicator);
  std::string reason = refusal_of_twice_listed(context_.optimizer, gradients);
  if (reason.empty() && slices_ != nullptr) reason = SlicesPart::refusal(context_, options_);
  UpdateRescue* const rescue = UpdateRescue::of(context_.optimizer);
  if (rescue != nullptr && reason.empty()) reason = rescue->refusal(communicator, options_, slices_ != nullptr);
  if (!reason.empty()) return reason;
  if (communicator.rank() == 0) warn_of_kept_views(buckets, gradients);
  if (rescue != nullptr) {
    auto pass = std::make_unique<RecoverablePass>(context_, *rescue, slices_->plan().tree().slices());
    recovery_ = pass.get();
    context_.pass = std::move(pass);
  } else {
    context_.pass = std::make_unique<PlainPass>(context_);
  }
  return "";
}

void UpdateMaker::make(StepDelegate& delegate) {
  place_gradients();
  share_out();
  make_weights();
  std::vector<FusedSegment> segments = make_segments();
  if (!context_.weights) context_.weights = std::make_unique<WholeWeights>(context_);
  parts_.add<WrittenWeights>(context_);
  make_gradients();
  make_copies();
  parts_.add<ReplicasPart>(context_);
  if (recovery_ != nullptr) recovery_->place_state(segments);
  context_.optimizer.shard(std::move(segments));
  if (recovery_ != nullptr) recovery_->begin();
  context_.optimizer.set_step_delegate(&delegate);
  std::vector<std::size_t> indices;
  for (const FusedBucket& bucket : context_.buckets) indices.push_back(bucket.index);
  context_.reducer.hand_over(indices, *context_.own_gradients, watcher_);
  terms_->keep_groups();
}

// fp64 weights keep gradients in fp64.
void UpdateMaker::place_gradients() {
  if (recovery_ != nullptr) return recovery_->open_memory();
  if (options_.stage >= 2) {
    pool_ = GradientPool(context_.buckets, options_.gradient_dtype, options_.slots, context_.gradients,
                         *context_.communicator);
    return;
  }
  for (FusedBucket& bucket : context_.buckets) {
    const at::ScalarType own = context_.gradients.parameter(bucket.parameters.front()).scalar_type();
    context_.gradients.use_dtype(bucket.index, own == at::ScalarType::Float ? options_.gradient_dtype : own);
    bucket.gradients = context_.gradients[bucket.index].memory;
  }
}

// Makes the plan, and gives each bucket this rank's parts.
void UpdateMaker::share_out() {
  std::vector<at::Tensor> memory;
  for (const FusedBucket& bucket : context_.buckets) memory.push_back(bucket.gradients);
  context_.plan = plan_update(memory, *context_.communicator, options_.share_weights, options_.stage,
                              recovery_ != nullptr ? &recovery_->hosts() : nullptr);
  for (std::size_t i = 0; i < context_.buckets.size(); ++i) {
    context_.buckets[i].own = context_.plan.region(i, context_.communicator->rank());
    context_.buckets[i].filled = context_.plan.filled_part(i, context_.communicator->rank());
  }
}

void UpdateMaker::make_weights() {
  Communicator& communicator = *context_.communicator;
  if (context_.plan.shards_weights) {
    auto weights = std::make_unique<ShardedWeights>(
        ShardedWeights::Parts{context_.gradients, context_.buckets, context_.communicator,
                              context_.plan.gathers_for_host, context_.reducer.follows_backward(), context_.plan,
                              options_.compute_dtype == at::ScalarType::BFloat16,
                              [&context = context_] { return context.backward.place.position(); }},
        options_.units, options_.reshard_after_forward);
    copies_of_shards_ = weights->copies();
    context_.weights = std::move(weights);
    context_.memory = make_message_memory(context_.plan, context_.buckets, communicator, {});
  } else {
    const bool has_values = recovery_ != nullptr && recovery_->has_weights();
    context_.memory = make_fused_memory(context_.plan, context_.buckets, context_.gradients, communicator, has_values);
  }
  if (recovery_ != nullptr) recovery_->weights_are_here();
  if (slices_ == nullptr) return;
  context_.memory =
      make_tree_memory(context_.plan, context_.buckets, *slices_, communicator, std::move(context_.memory));
}

// Watches what is fused, from now on.
std::vector<FusedSegment> UpdateMaker::make_segments() {
  std::vector<at::Tensor> watched(context_.gradients.num_parameters());
  std::vector<FusedSegment> segments;
  for (const FusedBucket& bucket : context_.buckets) {
    // If each host makes the whole update, this is the rank's part of that.
    const Region& part = context_.plan.outlives_group ? bucket.filled : bucket.own;
    FusedSegment segment{{}, bucket.offsets, part.begin, part.end};
    for (const std::size_t i : bucket.parameters) {
      watched[i] = context_.gradients.parameter(i);
      segment.parameters.push_back(watched[i]);
      context_.covered.emplace(watched[i].unsafeGetTensorImpl(), i);
    }
    segments.push_back(std::move(segment));
  }
  context_.start_watching(std::move(watched));
  return segments;
}

void UpdateMaker::make_gradients() {
  if (context_.plan.gives_buckets_back) {
    auto& gradients = parts_.add<PooledGradients>(context_, std::move(pool_));
    context_.own_gradients = &gradients;
    watcher_ = &gradients;
  } else {
    context_.own_gradients = &parts_.add<PlacedGradients>(context_);
  }
}

void UpdateMaker::make_copies() {
  if (copies_of_shards_ != nullptr) {
    parts_.add<ShardedCopiesPart>(context_, *copies_of_shards_);
    return;
  }
  if (options_.compute_dtype != at::ScalarType::BFloat16 || context_.plan.shards_weights) return;
  if (recovery_ == nullptr || recovery_->may_publish_copies()) parts_.add<PublishedCopies>(context_);
}

}  // namespace lockstep
