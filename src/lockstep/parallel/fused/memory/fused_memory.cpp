#include "lockstep/parallel/fused/memory/fused_memory.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "lockstep/comm/host_memory.h"
#include "lockstep/optim/update/gradient_memory.h"
#include "lockstep/parallel/fused/memory/lasting_access.h"
#include "lockstep/parallel/fused/memory/message_memory.h"
#include "lockstep/parallel/fused/memory/one_copy.h"
#include "lockstep/parallel/fused/memory/shared_memory.h"

namespace lockstep {
namespace {

// Whether this rank is the one that fills its copy of the weights at first.
bool fills_copy(const UpdatePlan& plan, int rank) {
  return !plan.shares_weights() || plan.places[static_cast<std::size_t>(rank)].on_host == 0;
}

template <typename Body>
void for_each_place(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients, const Body& body) {
  for (const FusedBucket& bucket : buckets) {
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      at::Tensor parameter = gradients.parameter(bucket.parameters[i]);
      body(parameter, weights_place(bucket, i, parameter.sizes()));
    }
  }
}

}  // namespace

GradientSource source_of(const std::vector<void*>& sources, const at::Tensor& like) {
  GradientSource source;
  source.sources = sources.data();
  source.num_sources = sources.size();
  element_type_of(like.scalar_type(), source.type);
  return source;
}

std::unique_ptr<FusedMemory> make_fused_memory(const UpdatePlan& plan, std::vector<FusedBucket>& buckets,
                                               const GradientBuckets& gradients, Communicator& communicator,
                                               bool has_values) {
  const at::NoGradGuard no_grad;
  std::vector<HostMemory> shared;
  for (FusedBucket& bucket : buckets) {
    const at::Tensor& like = gradients.parameter(bucket.parameters.front());
    const at::TensorOptions options = like.options().requires_grad(false);
    const std::int64_t numel = bucket.gradients.numel();
    if (bucket.weights.defined()) continue;
    if (!plan.shares_weights()) {
      bucket.weights = allocate_own_copy(numel, options);
    } else if (plan.hosts == 1) {
      bucket.weights = allocate_one_copy(communicator, numel, options);
    } else {
      shared.push_back(dynamic_cast<HostMemoryEngine&>(communicator).allocate_for_host(numel, like.scalar_type()));
      bucket.weights = shared.back().memory;
    }
  }
  if (!has_values && fills_copy(plan, communicator.rank())) {
    for (FusedBucket& bucket : buckets) bucket.weights.zero_();  // the gaps
    for_each_place(buckets, gradients,
                   [](at::Tensor& parameter, at::Tensor place) { place.copy_(parameter.detach()); });
  }
  if (!has_values && communicator.world_size() > 1) communicator.barrier();
  for_each_place(buckets, gradients, [](at::Tensor& parameter, const at::Tensor& place) { parameter.set_data(place); });
  if (plan.outlives_group) return make_lasting_access(communicator);
  switch (plan.sources) {
    case UpdatePlan::Sources::InPlace:
      return make_shared_memory(buckets, communicator);
    case UpdatePlan::Sources::Messages:
      break;
  }
  return make_message_memory(plan, buckets, communicator, std::move(shared));
}

}  // namespace lockstep
