#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/comm/operation.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// One operation under way, or the coming up of the group.
struct Activity {
  Fingerprint fingerprint;
  int tag = 0;               ///< of send and recv
  std::uint64_t number = 0;  ///< of send and recv: how many with this tag came before it between the two ranks
  bool coming_up = false;    ///< then the rest means nothing

  bool collective() const {
    return !coming_up && fingerprint.kind != OperationKind::Send && fingerprint.kind != OperationKind::Recv;
  }
  std::string describe() const;
};

/// Numbers the messages of one rank, by direction, peer and tag. Thread-safe.
class MessageNumbers {
 public:
  /// What the next send or recv is to the other ranks.
  Activity activity_of(const Operation& operation);

 private:
  std::mutex mutex_;
  std::map<std::tuple<OperationKind, int, int>, std::uint64_t> next_;
};

/// What one rank is doing, as it tells the others when something takes long.
struct RankState {
  /// So many collectives back are told: a rank that only sends may be ahead of the others by as many as fit in packets.
  static constexpr std::size_t kHistory = 16;

  std::uint64_t beat = 0;          ///< grows while the rank runs and waits
  std::vector<Fingerprint> ended;  ///< the last collectives that it ended, newest last
  std::vector<Activity> current;
  bool left = false;  ///< it takes part no more
};

/// @param text  from another rank, so not trusted
/// @throws Error  where `text` is not what `encode` makes
RankState decode_state(const std::string& text);
std::string encode_state(const RankState& state);

/// The operation's mark on messages: equal exactly (but for one chance in 2^56) where two ranks mean the same
/// operation. The low byte is zero. For send and recv it depends on who sends to whom,
/// for collectives on the EnclosingOperation of this thread.
std::uint64_t slot_of(const Activity& activity, int rank);

/// States by rank; nothing where a rank has told none.
using GroupState = std::vector<std::optional<RankState>>;

/// Says who does what where ranks disagree on one operation: the collectives of one sequence number, or the two sides
/// of a send. Nothing where they agree, as far as known.
std::optional<std::string> find_disagreement(const GroupState& states, const Membership& membership);

/// Ranks that have not come to the collective with this sequence number, as far as known.
std::vector<int> not_arrived(const GroupState& states, std::uint64_t sequence);

/// "rank 2 on host-a", or "rank 0 (4 of the job) on host-a" in a group whose ranks are numbered anew.
std::string name_of(const Membership& membership, int rank);
/// "it is in all_reduce #7 (sum) of 10 float", "it ended barrier #6", "nothing was heard of it".
std::string describe_state(const std::optional<RankState>& state);

}  // namespace lockstep
