#include "lockstep/train/loop/session_engine.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/elastic/elastic_ranks.h"

namespace lockstep {

SessionEngine::~SessionEngine() {
  if (!keeps_shards_) context_.shards.reset();
}

UpdateRescue& SessionEngine::survive(std::unique_ptr<UpdateRescue> rescue) {
  rescue_ = std::move(rescue);
  return *rescue_;
}

std::string SessionEngine::make(bool are_level, bool is_new) {
  engine_ = make_gradient_engine(choice_, context_.args(), context_.options.model, context_.group, are_level);
  if (rescue_) {
    const std::string refusal = rescue_->refusal(*context_.elastic->group(), {}, parts_.plan.has_slices);
    tell_refused_fuse(refusal);
    if (!refusal.empty()) return "";
  }
  std::string fused = engine_->fuse(parts_.updater.optimizer());
  // Unless memory was short, and this rank has taken copies.
  if (rescue_ && rescue_->adopts() && fused.empty() && (is_new || rescue_->state() != nullptr)) {
    throw Error("the training's state is in memory that ranks share, and this rank cannot fuse the update with it",
                context_.where(), "resume from the last checkpoint; if this recurs, it is a fault of the library");
  }
  WeightShards* const shards = engine_->weight_shards();
  context_.shards = shards == nullptr ? nullptr : std::shared_ptr<WeightShards>(engine_, shards);
  return fused;
}

// Ranks that come, or go, may change whether the others can fuse. All have the same refusal.
void SessionEngine::tell_refused_fuse(const std::string& refusal) {
  const std::string before = std::exchange(fuse_refusal_, context_.args().fuse ? refusal : "");
  if (fuse_refusal_ == before || context_.rank() != 0) return;
  if (fuse_refusal_.empty()) return log_info("fuse: the update is fused from now on");
  log_warning("fuse: {}; the update is not fused", fuse_refusal_);
}

void SessionEngine::choose_again() {
  choice_ = choose_engine(context_.args(), *context_.options.model, context_.group.get(), context_.is_rank);
}

void SessionEngine::keep_shards() {
  if (!context_.shards) return;
  struct Kept {
    std::unique_ptr<FlatOptimizer> optimizer;  // which the engine uses
    std::shared_ptr<GradientEngine> engine;
  };
  auto kept = std::make_shared<Kept>(Kept{parts_.updater.release_optimizer(), engine_});
  context_.shards = std::shared_ptr<WeightShards>(kept, context_.shards.get());
  keeps_shards_ = true;
}

}  // namespace lockstep
