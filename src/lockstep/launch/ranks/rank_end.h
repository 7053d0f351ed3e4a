#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_cause.h"
#include "lockstep/launch/process/exit_status.h"

namespace lockstep {

/// The content of a rank's error file.
struct ErrorFile {
  bool is_known = false;              ///< a program of Lockstep has it, whether it wrote something or not
  std::string message;                ///< empty: the file does not exist or is empty
  std::optional<FailureCause> cause;  ///< set if a program of Lockstep wrote the file, or if it does not know the
                                      ///< file and its last lines show a cause (written_cause.h)
};

/// How one rank of this node ended.
struct RankEnd {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = -1;
  ExitStatus status;
  int member = 0;          ///< as LOCKSTEP_MEMBER; of a rank from the start: its rank
  bool was_member = true;  ///< false: it was to take a lost rank's place, and the others had not let it in yet
  bool survived = false;   ///< the other ranks continued without it
  bool was_asked = false;  ///< it was running when the launcher asked it to end
  int warned_by = 0;       ///< a batch system's warning that the launcher had passed on to it; 0: none
  std::vector<std::string> last_lines;  ///< of its stderr
  ErrorFile error;
};

/// True if another rank's failure explains this one. Its error file decides. Lockstep's programs write their cause
/// there. If it is lost, an Error in the rank's last lines decides. If there is no cause, the rank's message or its
/// last lines decide, by the words of Gloo, NCCL, MPI or PyTorch. A signal from outside is a cause by itself, whatever
/// was written before.
bool is_consequence(const RankEnd& end);

/// True if the rank refused its arguments before it met others: started again, it would end alike.
bool is_usage_error(const RankEnd& end);

/// True if the rank has not failed: a signal asked it, or another rank of the job, to end, and it did so in order. A
/// Trainer records that. A rank without a record, which was warned, has done so if it left with 128 plus that signal,
/// SIGTERM or SIGINT: such codes are a program's word that it has saved.
bool stopped_in_order(const RankEnd& end);

/// True if it stopped in order upon a warning that the launcher passed on: the job's time is over, and nothing starts
/// again.
bool obeyed_warning(const RankEnd& end);

/// True if a warning that the launcher passed on has ended the rank, because its program does not handle it.
bool died_of_warning(const RankEnd& end);

/// The rank that got the signal upon which `ends` stopped in order; if it is not known, the one that ended first. Null
/// if a rank failed, or if none stopped so.
const RankEnd* first_stop(const std::vector<RankEnd>& ends);

/// The signal upon which a rank `stopped_in_order`.
int stop_signal_of(const RankEnd& end);

/// The rank that another failure's victim, or a rank that stopped in order, blames; -1 if it names none.
int blamed_by(const RankEnd& end);

/// The rank that failed first by cause, among `ends`, which are in the order of the ranks' ends. A rank that failed by
/// itself precedes a timeout or a disagreement, and these precede ranks whose failure another one explains. If there
/// are only such ranks, it is the rank to which their blame leads; if the blame forms a circle, it is the rank of the
/// circle that ended first. A rank that the others survived counts only if nothing else explains their failure. A rank
/// that was asked to end counts only if it had reported a failure before. Null if no rank failed by itself.
const RankEnd* first_failure(const std::vector<RankEnd>& ends);

/// Reads the file that PyTorch's `@record` or Lockstep's own record (base/failure_record.h) wrote.
/// @param pid  the rank's process: what programs that it has started refuse does not count
ErrorFile read_error_file(const std::string& path, pid_t pid);

}  // namespace lockstep
