#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>

#include "lockstep/launch/ranks/rank_group.h"

namespace lockstep {

// Starting ranks need the cores more than spares that are being loaded.
constexpr std::chrono::seconds kSpareDelay{1};
// A rank that has just started may not have come to handle a warning: it gets one later.
constexpr std::chrono::seconds kUntilWarningsAreHandled{3};

/// One rank of a RankGroup, for its sources only.
struct GroupRank {
  RankPlace place;
  ChildCommand command;
  ChildProcess process;
  bool ended = false;
  bool was_asked = false;                 // it was running when `stop` asked it to end
  int warned_by = 0;                      // the last warning that was passed on to it
  std::set<int> held;                     // warnings that it would not have survived yet
  Deadline ready_by = Deadline::never();  // when it gets them at the latest
  bool is_member = true;    // false: it is to join the others, in a lost rank's place or from a host that is new
  bool is_greeted = false;  // its announcement that it survives others was seen
  EventLoop::Token watch = 0;
  std::unique_ptr<OutputStream> out;  // null: stdout does not pass through the launcher
  std::unique_ptr<OutputStream> err;
  UniqueFd out_file;  // if the stream is written directly to a file
  UniqueFd err_file;
  std::string err_path;

  /// Makes what its stdout and stderr go to. @return  the descriptor for the process; -1: the launcher's own
  int connect_stdout(const LauncherParts& parts, const std::string& folder);
  /// Stderr passes through the launcher, which keeps its end, unless it is written directly to a file.
  int connect_stderr(const LauncherParts& parts, const std::string& folder);
  template <typename Act>
  void each_stream(Act act) const {
    if (out) act(*out);
    if (err) act(*err);
  }
  bool has_announced_survival() const {
    std::error_code ignored;
    return std::filesystem::exists(place.survival_file, ignored);
  }
  std::size_t index() const { return static_cast<std::size_t>(place.local_rank); }
  // The end of its stderr, from the pipe or the file.
  TextTail tail() const { return err ? err->tail() : tail_of_file(err_path); }
};

}  // namespace lockstep
