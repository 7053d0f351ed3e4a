#pragma once

#include <chrono>
#include <memory>

#include "lockstep/base/deadline.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// A process in a running job, before it is a member of a group.
struct JobEntrance {
  Peer self;
  std::shared_ptr<Store> store;  ///< with the prefix of the ranks' own store
};

/// Whether the launcher started this process to take the place of a lost rank (LOCKSTEP_MEMBER).
bool is_replacement();

/// Registers such a process with the job's store, under the number that the launcher gave it.
/// @throws Error  if variables are missing, or the store refuses
JobEntrance enter_job(Deadline deadline);

}  // namespace lockstep
