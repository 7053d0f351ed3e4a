#pragma once

#include <vector>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Which ranks of a group are on which host.
///
/// A lane joins the ranks that have the same place on each host. The number of lanes is the number of ranks on the host
/// with the fewest; on hosts with more ranks, the last ones are in no lane.
struct HostLayout {
  explicit HostLayout(const Membership& membership);

  std::vector<std::vector<int>> hosts;  ///< ranks by host, ascending; the hosts in the order of their first rank
  int host = 0;                         ///< host of this rank
  int place = 0;                        ///< place of this rank among the ranks of its host
  int lanes = 0;
  bool equal = true;  ///< every host has as many ranks as there are lanes

  int host_count() const { return static_cast<int>(hosts.size()); }
  const std::vector<int>& here() const { return hosts[static_cast<std::size_t>(host)]; }
  /// The ranks of a lane, by host.
  std::vector<int> lane(int number) const;
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  int place_of(int rank) const { return place_of_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<int> host_of_;
  std::vector<int> place_of_;
};

/// Whether a group spans hosts and some host has several of its ranks. Then it pays to combine data in each host's
/// memory first.
bool spans_hosts_of_several_ranks(const Membership& membership);

}  // namespace lockstep
