#include "lockstep/parallel/fused/update_plan.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/log.h"
#include "lockstep/comm/hierarchical/host_layout.h"
#include "lockstep/comm/host_memory.h"

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

// One copy per host needs an engine that writes it, and hosts that divide their copies alike.
bool can_share_on_hosts(Communicator& communicator) {
  const auto* engine = dynamic_cast<const HostMemoryEngine*>(&communicator);
  if (engine == nullptr) return false;
  if (!engine->has_equal_hosts() && communicator.rank() == 0) {
    log_info("fuse: each rank keeps weights of its own, because the hosts have unequal numbers of ranks");
  }
  return engine->has_equal_hosts();
}

// Sums of gradients that do not lie in memory of the job are the engine's to show.
bool reads_in_place(const MemoryHosts& outliving, const Communicator& communicator) {
  const bool shares = communicator.world_size() == 1 || std::strcmp(communicator.engine(), "shm") == 0;
  return shares && outliving.count() == 1;
}

void place_on_one_host(UpdatePlan& plan, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) plan.places.push_back({0, rank});
}

void place_on_hosts(UpdatePlan& plan, const HostLayout& layout, int world_size) {
  plan.hosts = layout.host_count();
  for (int rank = 0; rank < world_size; ++rank) plan.places.push_back({layout.host_of(rank), layout.place_of(rank)});
}

}  // namespace

Region UpdatePlan::filled_part(std::size_t bucket, int rank) const {
  if (shards_weights) return region(bucket, rank);
  const std::int64_t numel = regions[bucket].back().end;
  if (!shares_weights()) return {rank, 0, numel};
  const Place& place = places[static_cast<std::size_t>(rank)];
  const auto ranks =
      std::count_if(places.begin(), places.end(), [&](const Place& it) { return it.host == place.host; });
  const std::int64_t share = (numel + ranks - 1) / ranks;
  return {rank, std::min(share * place.on_host, numel), std::min(share * (place.on_host + 1), numel)};
}

UpdatePlan plan_update(const std::vector<at::Tensor>& gradients, Communicator& communicator, bool may_share, int stage,
                       const MemoryHosts* outliving) {
  UpdatePlan plan;
  plan.outlives_group = outliving != nullptr;
  plan.gives_buckets_back = stage >= 2;
  if (outliving != nullptr) {
    if (reads_in_place(*outliving, communicator)) plan.sources = UpdatePlan::Sources::InPlace;
    plan.copies = UpdatePlan::Copies::PerHost;
    plan.hosts = outliving->count();
    for (int rank = 0; rank < communicator.world_size(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      plan.places.push_back({outliving->host_of[index], outliving->place_of[index]});
    }
  } else if (may_share && all_shared(gradients, communicator)) {
    if (!plan.gives_buckets_back) plan.sources = UpdatePlan::Sources::InPlace;
    plan.copies = UpdatePlan::Copies::PerHost;
    place_on_one_host(plan, communicator.world_size());
  } else if (stage >= 3) {
    plan.shards_weights = communicator.world_size() > 1;
    plan.gathers_for_host = may_share && can_share_on_hosts(communicator);
  } else if (may_share && can_share_on_hosts(communicator)) {
    plan.copies = UpdatePlan::Copies::PerHost;
    place_on_hosts(plan, HostLayout(communicator.membership()), communicator.world_size());
  }
  for (const at::Tensor& memory : gradients) {
    plan.regions.push_back(equal_regions(memory.numel(), communicator.world_size()));
  }
  return plan;
}

}  // namespace lockstep
