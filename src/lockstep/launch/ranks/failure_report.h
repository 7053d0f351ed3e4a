#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/launch/ranks/rank_end.h"

namespace lockstep {

/// "rank 1 (local rank 1, pid 4242) on host-a failed first: killed by SIGSEGV (Segmentation fault)", followed by the
/// message of its error file and the last lines of its stderr, without the stack of a LibTorch error. For a rank that
/// stopped in order, it says so instead of "failed first".
std::string describe_failure(const RankEnd& first);

/// "exit code 1"; of a rank that has refused what it was started with, and need not have printed why, with its message.
std::string describe_end(const RankEnd& end);

/// The error that ends a job: which rank failed first, how, its last output, how the others ended, and what to try.
/// @param ends  ranks of this node, in the order in which they ended
/// @param story  another node's account of the failure; empty if it happened on this node
/// @param restarts  how often the ranks were started again before
/// @param log_path  folder of the log files; empty if there are none
Error failure_report(const std::vector<RankEnd>& ends, const std::string& story, int restarts,
                     const std::string& log_path, bool out_of_memory);

}  // namespace lockstep
