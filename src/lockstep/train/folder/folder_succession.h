#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// How the right to write the output folder passes from a lost first rank to the survivor that is the first one now.
/// The lost rank's process may live for a while and hold the folder: on a host that is cut off, until that host's
/// launcher gives the others up and ends it. The training continues meanwhile, and the new first rank tries to take the
/// folder between its stages. Until it has it, this rank's callbacks see themselves on another rank, so that they write
/// nothing, and what is logged is kept for them. Only what cannot be kept, such as a checkpoint, is waited for.
class FolderSuccession {
 public:
  /// @param context  outlives this object; with ElasticRanks
  explicit FolderSuccession(TrainerContext& context) : context_(context) {}

  /// This rank is the first one, and its callbacks do not know it yet. Tries to take the folder.
  void begin();
  /// This rank is the first one of its group, and the folder is not its own yet.
  bool is_awaited() const { return is_awaited_; }
  /// Tries again.
  void try_again();
  /// Waits for the folder, at most 2 minutes. The other ranks wait for this one meanwhile.
  /// @param what  to be done in the folder, "saving", for the log
  /// @throws Error  if the folder is not free in time: who holds it
  /// @throws Error  with the cause of a lost rank, if the group's ranks change meanwhile
  void wait(const std::string& what);
  /// As `begin` and `wait` after the last stage, when other ranks may have left already.
  void take_at_the_end();
  /// Keeps what this rank has just logged, if the folder is awaited.
  void keep_log(const Logs& logs);
  /// The folder is this rank's. Also keeps what the lost rank had not written yet when it was lost: what metrics.jsonl
  /// lacks. Call it before callbacks know that this rank is the first one.
  void find_lost_logs();
  /// The folder is this rank's, and its callbacks know it: they see once more what was logged meanwhile. What they ask
  /// for then has been asked for before.
  void hand_out_logs();

 private:
  struct KeptLog {
    Logs logs;
    std::int64_t step = 0;
    double epoch = 0;
  };

  TrainerContext& context_;
  bool is_awaited_ = false;
  std::string holder_;  // as it was at the last try
  std::vector<KeptLog> logs_;
};

}  // namespace lockstep
