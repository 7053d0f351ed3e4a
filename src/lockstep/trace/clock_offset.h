#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// One question for the reference's time, in nanoseconds.
struct RoundTrip {
  std::int64_t sent_ns = 0;       ///< by this clock
  std::int64_t reference_ns = 0;  ///< by the reference, at some moment between the other two
  std::int64_t received_ns = 0;   ///< by this clock
};

/// How this clock differs from the reference.
struct ClockOffset {
  std::int64_t offset_ns = 0;  ///< to be added to this clock's times
  std::int64_t error_ns = 0;   ///< the true offset is at most so far away, whatever the two ways took
};

/// The estimate by the quickest round trip, as in NTP: the reference was read halfway, give or take half of the trip
/// (Mills, RFC 5905, section 8).
/// @param trips  at least one
ClockOffset estimate_offset(const std::vector<RoundTrip>& trips);

/// This rank's offset against rank 0's host. Ranks of a host share CLOCK_MONOTONIC: the first of them asks rank 0, in
/// several round trips over the group's store, and leaves the answer for the others. Collective.
/// @param prefix  of the keys, unique in the group
/// @throws TimeoutError  naming the key of the rank that does not answer
ClockOffset align_clock(const Membership& membership, const std::string& prefix, Deadline deadline);

}  // namespace lockstep
