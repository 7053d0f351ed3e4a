#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lockstep/launch/elastic/messages.h"

namespace lockstep {

/// How this host's ranks stand in the newest generation, as the launcher reports it to the coordinator and to one that
/// takes over. A value: whoever shares it guards it.
class HostStanding {
 public:
  /// @param first  number of the first of the host's `local_ranks` processes
  void begin(const Generation& generation, int first, int local_ranks);
  /// What the coordinator says of the generation in which the ranks continue.
  void note_generation(const Generation& generation);
  /// The ranks of a lost store are to meet in another one.
  void note_era(std::int64_t era) { ranks_.era = era; }
  std::int64_t era() const { return ranks_.era; }

  /// Ranks announce by these files that they survive others.
  void await_survival(const std::vector<std::string>& files) { survival_files_ = files; }
  void note_survival();
  /// The last rank is lost that survives others.
  void lose_ranks();
  void lose_member(int member) { members_.erase(member); }
  void note_success() { ranks_.succeeded = true; }

  /// @return  number of the request for a process that takes a lost rank's place
  int ask_for_member();
  /// @param member  number of the process; -1: no restart is left
  void take_grant(int member);

  /// Looks for announcements, too.
  HostReport::Ranks now();

 private:
  HostReport::Ranks ranks_;  // without `members`
  std::set<int> members_;    // processes that run, by their numbers
  std::vector<std::string> survival_files_;
};

}  // namespace lockstep
