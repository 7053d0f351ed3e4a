#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lockstep/launch/process/child_process.h"
#include "lockstep/launch/process/event_loop.h"
#include "lockstep/launch/process/orphan_guard.h"

namespace lockstep {

/// Warm spares: for each local rank a loaded process of the program that waits before its main function. A restart then
/// need not wait for the program's libraries, of which LibTorch alone takes 0.4 s.
///
/// A library that is preloaded into the program (LD_PRELOAD) does the waiting; the program itself is not involved.
class SpareRanks {
 public:
  SpareRanks(EventLoop& loop, OrphanGuard& guard) : loop_(loop), guard_(guard) {}
  /// Ends the spares that were not needed.
  ~SpareRanks();
  SpareRanks(const SpareRanks&) = delete;
  SpareRanks& operator=(const SpareRanks&) = delete;

  /// Starts to load a spare for each command that has none, by local rank, one after the other, because the ranks need
  /// the cores.
  void prepare(std::map<int, ChildCommand> commands);
  /// Turns the spare of `local_rank` into the process that `command` describes. Nothing if there is no spare.
  std::optional<ChildProcess> release(int local_rank, const ChildCommand& command);
  /// Spares that wait or are being loaded.
  std::set<pid_t> processes() const;

 private:
  struct Spare {
    ChildCommand command;  // of the rank, to start another spare if this one ends
    ChildProcess process;
    UniqueFd socket;
    bool loaded = false;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    EventLoop::Token watch = 0;
  };
  // Spares of a rank that ended before they were needed, in a row.
  struct Ends {
    int while_loading = 0;
    int while_waiting = 0;
  };
  void load_next();
  void start(int local_rank, ChildCommand command);
  void take_sign(int local_rank);
  void take_end(int local_rank);
  void give_up(int local_rank, const std::string& why);
  bool is_useless(int local_rank) const { return useless_.count(local_rank) != 0; }

  EventLoop& loop_;
  OrphanGuard& guard_;
  std::map<int, ChildCommand> wanted_;
  std::map<int, std::unique_ptr<Spare>> spares_;
  std::map<int, Ends> ends_;  // by local rank
  std::set<int> useless_;     // local ranks of which so many spares ended that others would, too
};

/// The path of the library that waits, in the launcher's own folder.
std::string spare_library_path();

/// @throws UsageError  if processes of the program `file` cannot wait as spares, because it is linked statically or is
/// not a program; or if the library for it is missing
void check_spares_are_possible(const std::string& file);

}  // namespace lockstep
