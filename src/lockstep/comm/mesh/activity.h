#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/comm/failure/group_failure.h"
#include "lockstep/detail/comm/operation.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// One operation in progress, or the connecting of the group.
struct Activity {
  Fingerprint fingerprint;
  int tag = 0;                  ///< for send and recv
  std::uint64_t number = 0;     ///< for send and recv: how many with this tag preceded it between the two ranks
  bool is_group_start = false;  ///< the group is connecting; the other fields are not used
  /// Operation::enclosing_mark, for the messages of this rank. Other ranks' activities are reported without it.
  std::uint32_t enclosing_mark = 0;

  bool collective() const {
    return !is_group_start && fingerprint.kind != OperationKind::Send && fingerprint.kind != OperationKind::Recv;
  }
  std::string describe() const;
};

/// A collective. A send or recv needs its number from MessageNumbers.
Activity activity_of(const Operation& collective);

/// Numbers the messages of one rank, by direction, peer and tag. Thread-safe.
class MessageNumbers {
 public:
  /// The description of the next send or recv for the other ranks.
  Activity activity_of(const Operation& operation);

 private:
  std::mutex mutex_;
  std::map<std::tuple<OperationKind, int, int>, std::uint64_t> next_;
};

/// A rank's state, which it reports to the others when an operation takes long.
struct RankState {
  /// Number of past collectives in a report: a rank that only sends may be ahead of the others by as many operations as
  /// fit in packets.
  static constexpr std::size_t kHistory = 16;

  std::uint64_t beat = 0;          ///< increases while the rank runs and waits
  std::vector<Fingerprint> ended;  ///< the last collectives that it ended, newest last
  std::vector<Activity> current;
  bool left = false;  ///< it no longer takes part
};

/// @param text  from another rank, so not trusted
/// @throws Error  if `text` is not what `encode_state` makes
RankState decode_state(const std::string& text);
std::string encode_state(const RankState& state);

/// The operation's mark on messages: equal exactly if two ranks mean the same operation (except for one chance in
/// 2^56). The low byte is zero. For send and recv the mark depends on sender and receiver, for collectives on the
/// operation that encloses them.
std::uint64_t slot_of(const Activity& activity, int rank);

/// States by rank; nothing for a rank that has reported none.
using GroupState = std::vector<std::optional<RankState>>;

/// The failure if ranks disagree on one operation: the collectives of one sequence number, or the two sides of a send.
/// Nothing if they agree, as far as known.
std::optional<GroupFailure> find_disagreement(const GroupState& states, const Membership& membership);

/// Ranks that have not reached the collective with this sequence number, as far as known.
std::vector<int> not_arrived(const GroupState& states, std::uint64_t sequence);

/// What is known of a rank's calls: "last seen entering all_reduce #7 (sum) of 10 float".
std::string last_seen(const std::optional<RankState>& state);

}  // namespace lockstep
