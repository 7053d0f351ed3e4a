#pragma once

#include <string>

#include "lockstep/comm/shm/announcement.h"
#include "lockstep/detail/comm/operation.h"

namespace lockstep::shm {

/// What a rank tells the others about the operation that it enters.
Announcement announce(const Operation& operation);
/// "all_reduce #5 (sum) of 1000 float". @param announcement  from another rank, so not trusted
std::string describe(const Announcement& announcement);

}  // namespace lockstep::shm
