#pragma once

// Ends of ranks, for the tests of what the launcher makes of them.
#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "lockstep/launch/ranks/rank_end.h"

namespace lockstep {

inline RankEnd end_of(int rank, int code, int signal = 0, std::vector<std::string> lines = {}) {
  RankEnd end;
  end.rank = rank;
  end.status.code = code;
  end.status.signal = signal;
  end.last_lines = std::move(lines);
  return end;
}

inline RankEnd aborted(int rank, std::vector<std::string> lines) { return end_of(rank, 0, SIGABRT, std::move(lines)); }

inline RankEnd with_file(RankEnd end, FailureCause::Kind kind, int blames = -1) {
  end.error = {true, "its message", FailureCause{kind, blames}};
  return end;
}

inline RankEnd asked(RankEnd end) {
  end.was_asked = true;
  return end;
}

inline RankEnd survived(RankEnd end) {
  end.survived = true;
  return end;
}

// The last words of a rank that lost a peer over Gloo.
inline const std::vector<std::string> kVictim{
    "RuntimeError: [pair.cc:598] Connection closed by peer [127.0.0.1]:40113"};

}  // namespace lockstep
