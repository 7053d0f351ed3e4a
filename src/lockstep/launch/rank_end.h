#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/launch/exit_status.h"

namespace lockstep {

/// How one rank of this node ended.
struct RankEnd {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = -1;
  ExitStatus status;
  bool was_asked = false;               ///< the launcher had told it to end before
  std::vector<std::string> last_lines;  ///< of its stderr
  std::string message;                  ///< that it left in its error file
};

/// True if the text says that another rank, or the connection to it, was lost: the writer is a victim, not the cause.
bool blames_a_peer(const RankEnd& end);

/// The rank that failed first, of `ends` in the order in which they ended: the first that was not asked to and blames
/// no peer; failing that, the first that was not asked to. Null where none failed by itself.
const RankEnd* first_failure(const std::vector<RankEnd>& ends);

/// What the error file of a rank says, as PyTorch's `@record` writes it; empty where there is none, or no JSON in it.
std::string read_error_file(const std::string& path);

}  // namespace lockstep
