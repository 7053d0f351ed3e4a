#include "lockstep/detail/parallel/fused_step.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/wrapper/distributed_replica.h"

namespace lockstep {

FusedStep::FusedStep(const std::shared_ptr<Held>& held, std::string reason) : held_(held), reason_(std::move(reason)) {}

// Null if none is in force.
FusedUpdate* FusedStep::update() const {
  const std::shared_ptr<Held> held = held_.lock();
  return held && *held && (*held)->is_active() ? held->get() : nullptr;
}

FuseMode FusedStep::mode() const {
  const FusedUpdate* const fused = update();
  return fused == nullptr ? FuseMode::Off : fused->mode();
}

void FusedStep::unfuse() const {
  if (FusedUpdate* const fused = update()) fused->unfuse();
  if (const std::shared_ptr<Held> held = held_.lock()) held->reset();
}

void FusedStep::unfuse_weights() const {
  if (FusedUpdate* const fused = update()) fused->unfuse_weights();
  if (const std::shared_ptr<Held> held = held_.lock()) held->reset();
}

void FusedStep::own_weights() const {
  const at::NoGradGuard no_grad;
  if (FusedUpdate* const fused = update()) fused->weights_between_steps("own_weights").move_to_own_memory();
}

bool FusedStep::unshard() const {
  ShardedWeights* const shards = sharded_weights_of(update());
  return shards != nullptr && shards->gather_all();
}

void FusedStep::reshard() const {
  if (ShardedWeights* const shards = sharded_weights_of(update())) shards->free_all();
}

TensorParts FusedStep::weight_parts() const {
  ShardedWeights* const shards = sharded_weights_of(update());
  return shards == nullptr ? TensorParts() : shards->own_parts();
}

void FusedStep::write_weight_parts(const std::function<void(const TensorParts&)>& write) const {
  const at::NoGradGuard no_grad;
  if (FusedUpdate* const fused = update()) fused->weights_between_steps("write_weight_parts").write_own_parts(write);
}

std::int64_t FusedStep::peak_weight_bytes() const {
  const ShardedWeights* const shards = sharded_weights_of(update());
  return shards == nullptr ? 0 : shards->peak_bytes();
}

bool FusedStep::has_sent_gradients() const {
  const FusedUpdate* const fused = update();
  return fused != nullptr && fused->has_sent_gradients();
}

}  // namespace lockstep
