// Warnings of batch systems, on their way to the ranks of a RankGroup.
#include <signal.h>

#include <set>
#include <utility>

#include "lockstep/launch/process/process_table.h"
#include "lockstep/launch/ranks/group_rank.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kBetweenWarnings{20};

}  // namespace

void RankGroup::warn(int signal) {
  for (const auto& rank : ranks_) {
    if (rank->ended) continue;
    rank->warned_by = signal;
    rank->held.insert(signal);
  }
  pass_on_warnings();
}

void RankGroup::pass_on_warnings() {
  warn_at_ = Deadline::never();
  for (const auto& rank : ranks_) {
    if (rank->ended) continue;
    const std::set<int> held = std::exchange(rank->held, {});
    for (const int signal : held) {
      if (rank->ready_by.passed() || takes_signal(rank->process.pid, signal)) {
        ::kill(-rank->process.pid, signal);
      } else {
        rank->held.insert(signal);
        warn_at_ = Deadline::after(kBetweenWarnings);
      }
    }
  }
}

}  // namespace lockstep
