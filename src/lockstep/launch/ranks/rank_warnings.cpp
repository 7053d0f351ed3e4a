#include "lockstep/launch/ranks/rank_warnings.h"

#include <signal.h>

#include <set>
#include <utility>

#include "lockstep/launch/process/process_table.h"
#include "lockstep/launch/ranks/group_rank.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kBetweenWarnings{20};

}  // namespace

Deadline send_warning(const GroupRanks& ranks, int signal) {
  for (const auto& rank : ranks) {
    if (rank->ended) continue;
    rank->warned_by = signal;
    rank->held.insert(signal);
  }
  return pass_on_warnings(ranks);
}

Deadline pass_on_warnings(const GroupRanks& ranks) {
  Deadline again = Deadline::never();
  for (const auto& rank : ranks) {
    if (rank->ended) continue;
    const std::set<int> held = std::exchange(rank->held, {});
    for (const int signal : held) {
      if (rank->ready_by.passed() || takes_signal(rank->process.pid, signal)) {
        ::kill(-rank->process.pid, signal);
      } else {
        rank->held.insert(signal);
        again = Deadline::after(kBetweenWarnings);
      }
    }
  }
  return again;
}

}  // namespace lockstep
