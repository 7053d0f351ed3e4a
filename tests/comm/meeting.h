#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Returns once every rank of the group has called it with this name, which serves once. The ranks meet in the store,
/// for tests in which the group fails: a barrier that has returned on one rank may still fail on another.
inline void meet_in_store(Communicator& group, const std::string& name) {
  Store& store = *group.membership().store;
  std::vector<std::string> all;
  for (int rank = 0; rank < group.world_size(); ++rank) all.push_back(name + "/" + std::to_string(rank));
  store.set(all[static_cast<std::size_t>(group.rank())], "1");
  store.wait(all, Deadline::after(std::chrono::seconds(60)));
}

}  // namespace lockstep
