#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/failure_cause.h"
#include "lockstep/comm/failure/late_ranks.h"
#include "lockstep/comm/failure/named_rank.h"

namespace lockstep {

/// A rank and the call that it makes: "all_reduce #5 (sum) of 10 float".
struct RankCall {
  std::string rank;
  std::string call;
};

/// Why a group of ranks ended, with its cause as data. The first rank that finds out passes it to the others, and all
/// ranks throw it.
///
/// Every engine makes its failures with the functions below, which hold the wording. So one event reads the same over
/// all engines. `operation` is what the rank that found the failure waited in; it may be empty. `seen` is the last that
/// is known of the other rank, as "last seen entering barrier #4".
struct GroupFailure {
  enum class Kind : std::uint32_t { Lost = 1, Left = 2, Timeout = 3, Disagreement = 4, Aborted = 5 };

  Kind kind = Kind::Lost;
  std::string happened;
  std::string fix;
  int blamed = -1;  ///< rank in the job that is lost, has left, is late, or ended the group; -1: no rank, or not known
  int found_by = -1;  ///< rank in the group that found out; -1: not known

  /// A rank ended. @param cause  "its process ended"
  static GroupFailure rank_lost(const std::string& operation, const NamedRank& rank, const std::string& cause,
                                const std::string& seen = "");
  /// The connection to ranks ended, and nobody knows more about them. @param detail  may be empty
  static GroupFailure connection_lost(const std::string& operation, const std::vector<NamedRank>& ranks,
                                      const std::string& detail = "");
  /// A rank that lives no longer takes part.
  static GroupFailure rank_left(const std::string& operation, const NamedRank& rank, const std::string& seen = "");
  /// @param over_network  if all ranks have arrived, the network may be the reason
  static GroupFailure timed_out(const std::string& operation, double waited_s, const LateRanks& late,
                                bool over_network);
  /// As above, while the group connects: another timeout applies.
  static GroupFailure start_timed_out(const std::string& operation, double waited_s, const LateRanks& late);
  /// A deadline passed, and the store, which knows more, does not answer. @param problem  its error; may be empty
  static GroupFailure timed_out_without_store(const std::string& operation, const std::string& problem);
  /// @param calls  of all ranks whose call is known; equal calls are put together
  static GroupFailure disagreement(const std::vector<RankCall>& calls);
  /// `rank` ended the group for all.
  static GroupFailure aborted(const NamedRank& rank, const std::string& reason);
  /// The engine's library failed on `rank`. @param problem  in the library's words
  static GroupFailure engine_failed(const NamedRank& rank, const std::string& problem, const std::string& fix);
  /// The engine's library says on `rank` that it lost some other rank, and nobody knows which.
  static GroupFailure engine_lost(const NamedRank& rank, const std::string& problem, const std::string& fix);
  /// The groups of which this one consists failed, and no rank knows more.
  static GroupFailure part_failed(const std::string& problem);
  /// The group's connections ended for a reason that no rank knows.
  static GroupFailure unexplained(const std::string& detail);

  FailureCause cause() const;
  /// Throws TimeoutError or Error, with the cause. A caller further up adds `where`.
  /// @param rank  rank in the group that throws it
  [[noreturn]] void raise(int rank) const;

  std::string encode() const;
  /// @param text  from another rank, so not trusted: any text becomes some failure
  static GroupFailure decode(const std::string& text);
};

/// The reason with which a communicator ends its group if it is destroyed too early.
constexpr const char* kDestroyedEarly =
    "its communicator was destroyed while operations were under way; wait for every Work before you destroy it";

}  // namespace lockstep
