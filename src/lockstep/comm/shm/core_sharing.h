#pragma once

#include <vector>

#include "lockstep/comm/shm/group.h"

namespace lockstep::shm {

/// Words of the masks in which the ranks of a group show each other their cores. The kernel says how many cores a mask
/// must have room for, so the number is equal on all ranks of a host, and no machine is too large.
int words_of_core_mask();

/// Shows the other ranks the cores that this one may run on.
void publish_cores(Group& group, const std::vector<int>& cores);

/// Decides how long this rank's waits keep their core, and how many cores it has for itself. All ranks have published
/// theirs.
/// @param quota  cores that a CPU quota allows the ranks together
void share_cores(Group& group, int quota);

}  // namespace lockstep::shm
