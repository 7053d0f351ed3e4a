#pragma once

#include "lockstep/base/deadline.h"
#include "lockstep/launch/ranks/rank_announcements.h"

namespace lockstep {

/// Sends a batch system's warning to the ranks that run, and to the processes that they started. A rank that has just
/// started, and would not survive it, gets it later. @return  when to call `pass_on_warnings`
Deadline send_warning(const GroupRanks& ranks, int signal);
/// Sends the warnings that were held back, to ranks that can take them now. @return  when to call it again
Deadline pass_on_warnings(const GroupRanks& ranks);

}  // namespace lockstep
