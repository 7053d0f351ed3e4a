#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_cause.h"
#include "lockstep/launch/process/exit_status.h"

namespace lockstep {

/// What a rank left in its error file.
struct ErrorFile {
  std::string message;                ///< empty: there is no such file, or nothing in it
  std::optional<FailureCause> cause;  ///< as a program of Lockstep's writes it; nothing from any other
};

/// How one rank of this node ended.
struct RankEnd {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = -1;
  ExitStatus status;
  bool was_asked = false;               ///< the launcher had told it to end before
  std::vector<std::string> last_lines;  ///< of its stderr
  ErrorFile error;
};

/// True if another rank's failure explains this one: its error file says so; or, where that has no cause, its message
/// or its last lines do, in the words of Lockstep, Gloo, NCCL, MPI or PyTorch. A signal from outside is a cause by
/// itself, whatever was written before.
bool is_consequence(const RankEnd& end);

/// The rank to which such a rank points; -1 where it names none.
int blamed_by(const RankEnd& end);

/// The rank that failed first, of `ends` in the order in which they ended, and first by cause: whoever failed by itself
/// comes before a timeout or a disagreement, and these before those whom another failure explains. If only such are
/// there, it is the rank to which their blame leads; if they blame each other in a circle, the one of the circle that
/// ended first. A rank that was asked to end counts only if it had said before that it failed. Null if none failed by
/// itself.
const RankEnd* first_failure(const std::vector<RankEnd>& ends);

/// Reads what PyTorch's `@record` or Lockstep's own record (base/failure_record.h) wrote.
ErrorFile read_error_file(const std::string& path);

}  // namespace lockstep
