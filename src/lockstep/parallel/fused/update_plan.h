#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"

namespace lockstep {

/// Elements [begin, end) of one bucket. The owner adds up all ranks' gradients of these elements, keeps their state and
/// updates their weights.
struct Region {
  int owner = 0;  ///< a rank
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Who updates what in a fused update, where the gradients come from, and where the weights go. Equal on all ranks,
/// because it depends on the buckets, the group and the options alone.
struct UpdatePlan {
  /// How the owner of a region gets the sum of all ranks' gradients.
  enum class Sources {
    InPlace,   ///< the update reads every rank's gradients where they lie
    Messages,  ///< by messages, which backward can start
  };
  /// How many copies of the weights there are.
  enum class Copies { PerHost, PerRank };

  Sources sources = Sources::Messages;
  /// Owners keep sums, and the memory of a bucket is used again when it is reduced. Only by messages.
  bool gives_buckets_back = false;
  Copies copies = Copies::PerRank;
  /// Each rank keeps the weights of its regions alone, and gathers others while it reads them.
  bool shards_weights = false;
  /// What it gathers lies once on each host, for all its ranks.
  bool gathers_for_host = false;
  /// Gradients and each host's copy of the weights lie in memory that outlives the group, and each host makes the whole
  /// update.
  bool outlives_group = false;
  std::vector<std::vector<Region>> regions;  ///< by bucket and owner: equal shares, one for each rank, in rank order

  bool shares_weights() const { return copies == Copies::PerHost; }
  /// Where a rank is, among those that share weights.
  struct Place {
    int host = 0;     ///< counted from 0
    int on_host = 0;  ///< place among the ranks of the host
  };
  std::vector<Place> places;  ///< by rank; empty if ranks share no weights
  int hosts = 1;

  /// Whether there is one copy of the weights for all ranks.
  bool has_one_copy() const { return shares_weights() && hosts == 1; }
  const Region& region(std::size_t bucket, int owner) const { return regions[bucket][static_cast<std::size_t>(owner)]; }
  /// The part of its copy of the weights that this rank fills if they come from elsewhere than an update.
  Region filled_part(std::size_t bucket, int rank) const;
};

/// Chooses the plan for buckets of gradients, each in equal parts for all ranks. Equal on all ranks without a message.
/// If the ranks of several hosts would share weights, but some host has more ranks than another, each rank keeps
/// weights of its own, and rank 0 logs why.
/// @param gradients  the memory of each bucket
/// @param may_share  false: every rank keeps weights of its own, even if the engine could share them
/// @param outliving  the hosts in whose memory gradients and weights lie, which outlives the group, whatever the engine
/// knows of it; null: they do not
/// @param stage  what ranks share out: from 2 on buckets are given back, and from 3 on each rank keeps its weights
/// alone, unless all ranks have one copy
UpdatePlan plan_update(const std::vector<at::Tensor>& gradients, Communicator& communicator, bool may_share, int stage,
                       const MemoryHosts* outliving = nullptr);

}  // namespace lockstep
