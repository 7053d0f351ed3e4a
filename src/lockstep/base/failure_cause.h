#pragma once

#include <exception>
#include <optional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

/// The cause of a failure, as data: the launcher of a job uses it to distinguish the failed rank from ranks that saw it
/// fail.
struct FailureCause {
  enum class Kind {
    Own,            ///< this rank failed by itself
    LostPeer,       ///< another rank ended, or the connection to it did
    PeerLeft,       ///< another rank left the group while this one still needed it
    AbortedByPeer,  ///< another rank failed, and ended the group for all
    Disagreement,   ///< the ranks made different calls
    Timeout,        ///< a rank did not arrive in time
    Usage,          ///< this rank refused what it was started with, before it met others or after, and would again
    Stopped,        ///< nothing failed: a signal asked a rank to end, and the ranks ended in order
  };
  Kind kind = Kind::Own;
  int rank = -1;  ///< the blamed rank, by its number in the job; -1: no rank, or not known

  /// True if another rank's failure explains this one.
  bool is_consequence() const {
    return kind == Kind::LostPeer || kind == Kind::PeerLeft || kind == Kind::AbortedByPeer;
  }

  friend bool operator==(const FailureCause& a, const FailureCause& b) { return a.kind == b.kind && a.rank == b.rank; }
};

/// "own", "lost_peer", "peer_left", "aborted_by_peer", "disagreement", "timeout", "usage", "stopped".
const char* to_string(FailureCause::Kind kind);
/// The kind that `to_string` writes as `text`; nothing for any other text.
std::optional<FailureCause::Kind> failure_kind(const std::string& text);

/// An error with its cause.
template <class AnError>
class Caused : public AnError, public FailureCause {
 public:
  Caused(const AnError& error, const FailureCause& cause) : AnError(error), FailureCause(cause) {}
};

/// Throws `error` so that `cause_of` finds `cause` in what is caught.
template <class AnError>
[[noreturn]] void throw_caused(const AnError& error, const FailureCause& cause) {
  throw Caused<AnError>(error, cause);
}

/// The cause that `error` was thrown with; null if it was thrown without one.
const FailureCause* cause_of(const std::exception& error);

/// A copy of `error` with another `where`. It keeps the text, the cause, and its type (Error or TimeoutError).
std::exception_ptr moved_to(const Error& error, const std::string& where);
/// A copy of `error` whose `fix` has `more` behind it. It keeps the rest in the same way.
std::exception_ptr with_more_advice(const Error& error, const std::string& more);

/// A copy of `error` that has no cause, of the same type.
std::exception_ptr without_cause(const Error& error);

}  // namespace lockstep
