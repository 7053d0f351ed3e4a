#include "lockstep/parallel/fused/update_plan.h"

#include <algorithm>

namespace lockstep {
namespace {

bool all_shared(const std::vector<at::Tensor>& gradients, Communicator& communicator) {
  if (communicator.world_size() == 1) return true;
  return std::all_of(gradients.begin(), gradients.end(),
                     [&](const at::Tensor& memory) { return communicator.symmetric_memory(memory) != nullptr; });
}

std::vector<Region> equal_regions(std::int64_t numel, int world_size) {
  const std::int64_t share = numel / world_size;
  std::vector<Region> regions;
  for (int owner = 0; owner < world_size; ++owner) regions.push_back({owner, share * owner, share * (owner + 1)});
  return regions;
}

}  // namespace

UpdatePlan plan_update(const std::vector<at::Tensor>& gradients, Communicator& communicator, bool may_share) {
  UpdatePlan plan;
  if (may_share && all_shared(gradients, communicator)) {
    plan.sources = UpdatePlan::Sources::InPlace;
    plan.copies = UpdatePlan::Copies::PerHost;
  }
  for (const at::Tensor& memory : gradients) {
    plan.regions.push_back(equal_regions(memory.numel(), communicator.world_size()));
  }
  return plan;
}

}  // namespace lockstep
