#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/failure/named_rank.h"

namespace lockstep {

/// Most ranks that a message names one by one.
constexpr std::size_t kMostNamedRanks = 8;

/// What is known of a rank's calls, for messages.
std::string last_seen_entering(const std::string& operation);
constexpr const char* kNothingEntered = "it has not entered any operation yet";

/// A rank for which an operation waits.
struct LateRank {
  NamedRank rank;
  std::string lacks;  ///< "has not arrived", "has not sent the message"
  std::string seen;   ///< "last seen entering barrier #4"; may be empty
  /// It still reports that it waits in a call of its own, so it is not the cause.
  bool waits_itself = false;
};

/// The ranks for which an operation waits, as far as known; empty if all have arrived.
using LateRanks = std::vector<LateRank>;

/// The rank that an operation's timeout is blamed on: the first one that does not wait itself. @return  its number in
/// the job; -1 if all wait, which the network explains
int blamed_rank(const LateRanks& late);

/// "rank 3 on a (process 7) has not arrived (last seen entering barrier #4); rank 5 ..."
std::string describe(const LateRanks& late, bool over_network);

/// The warning about an operation that takes long.
/// @param works  what a late rank does meanwhile (Patience::who_works); may be empty
std::string slow_operation_text(const std::string& operation, double waited_s, const std::string& late,
                                const std::string& works);

}  // namespace lockstep
