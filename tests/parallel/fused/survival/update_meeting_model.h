// What update_meeting_model_test.cpp explores: ranks of hosts, and what each of them has done and knows.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lockstep/parallel/fused/recovery/update_meeting.h"

namespace lockstep::meeting_model {

constexpr int kMostRanks = 4;
constexpr int kUpdates = 2;

enum class Fault { None, DecidesBySelf, DecidesEarly, MeetsOnce, EndsAlone };

enum class At {
  Gradients,  // about to enter an exchange before the update, as of buffers
  InGradients,
  Norm,  // about to enter what all need to know all sums
  InNorm,
  Note,
  Write,
  Finish,
  InFinish,
  Done,  // with all updates
  InDone,
  Left,  // the group, after a failure
  Meet,
  InMeet,
  InTold,  // of a note
  Mend,
  InMended,
  Ended,
  Dead
};

struct ModelRank {
  At at = At::Gradients;
  int updates = 0;     // that this rank has counted
  int written = 0;     // updates that its part of the host's memory has seen
  int written_in = 0;  // the group that wrote the newest
  int note = 0;        // its newest
  int group = 0;       // the one it is in, or has left
  int calls = 0;       // collectives of this group that it has entered
  bool is_in_step = false;
  StepReport report;      // what it has said
  bool finishes = false;  // its update
};

struct Model {
  int ranks = 0;
  std::array<int, kMostRanks> host{};
  std::array<ModelRank, kMostRanks> rank;
  std::vector<unsigned> members{0};  // by group, one bit for each rank
  std::string kinds;                 // of the newest group's collectives
  int kills_left = 0;

  std::string key() const {
    std::string text = kinds + "|";
    const auto add = [&](int number) { text += static_cast<char>('0' + number); };
    for (int r = 0; r < ranks; ++r) {
      const ModelRank& it = rank[static_cast<std::size_t>(r)];
      for (const int number : {static_cast<int>(it.at), it.updates, it.written, it.written_in, it.note, it.group,
                               it.calls, it.is_in_step ? 1 : 0, static_cast<int>(it.report.number),
                               it.report.has_note ? 1 : 0, it.finishes ? 1 : 0}) {
        add(number);
      }
    }
    for (const unsigned group : members) add(static_cast<int>(group));
    add(kills_left);
    return text;
  }
  ModelRank& of(int r) { return rank[static_cast<std::size_t>(r)]; }
  const ModelRank& of(int r) const { return rank[static_cast<std::size_t>(r)]; }
  bool is_member(int r) const { return (members.back() >> static_cast<unsigned>(r) & 1U) != 0; }
};

}  // namespace lockstep::meeting_model
