#include "lockstep/trace/clock_offset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/trace/trace_event.h"

namespace lockstep {
namespace {

constexpr int kRoundTrips = 16;

int first_rank_of_host(const Membership& membership, const Peer& peer) {
  int rank = 0;
  while (membership.peers[static_cast<std::size_t>(rank)].host_id != peer.host_id) ++rank;
  return rank;
}

std::string ping(const std::string& prefix, int rank, int trip) {
  return fmt::format("{}/ping/{}/{}", prefix, rank, trip);
}
std::string pong(const std::string& prefix, int rank, int trip) {
  return fmt::format("{}/pong/{}/{}", prefix, rank, trip);
}
std::string answer(const std::string& prefix, int rank) { return fmt::format("{}/offset/{}", prefix, rank); }

void answer_pings(Store& store, const std::string& prefix, int rank, Deadline deadline) {
  for (int trip = 0; trip < kRoundTrips; ++trip) {
    store.get(ping(prefix, rank, trip), deadline);
    store.set(pong(prefix, rank, trip), std::to_string(trace_now_ns()));
  }
}

ClockOffset ask(Store& store, const std::string& prefix, int rank, Deadline deadline) {
  std::vector<RoundTrip> trips;
  for (int trip = 0; trip < kRoundTrips; ++trip) {
    RoundTrip times;
    times.sent_ns = trace_now_ns();
    store.set(ping(prefix, rank, trip), "?");
    const std::string reference = store.get(pong(prefix, rank, trip), deadline);
    times.received_ns = trace_now_ns();
    times.reference_ns = std::strtoll(reference.c_str(), nullptr, 10);
    trips.push_back(times);
  }
  for (int trip = 0; trip < kRoundTrips; ++trip) {
    store.delete_key(ping(prefix, rank, trip));
    store.delete_key(pong(prefix, rank, trip));
  }
  return estimate_offset(trips);
}

}  // namespace

ClockOffset estimate_offset(const std::vector<RoundTrip>& trips) {
  const auto quickest = std::min_element(trips.begin(), trips.end(), [](const RoundTrip& a, const RoundTrip& b) {
    return a.received_ns - a.sent_ns < b.received_ns - b.sent_ns;
  });
  const std::int64_t length = quickest->received_ns - quickest->sent_ns;
  return {quickest->reference_ns - (quickest->sent_ns + length / 2), (length + 1) / 2};
}

ClockOffset align_clock(const Membership& membership, const std::string& prefix, Deadline deadline) {
  Store& store = *membership.store;
  if (membership.rank == 0) {
    for (int rank = 1; rank < membership.world_size; ++rank) {
      if (first_rank_of_host(membership, membership.peers[static_cast<std::size_t>(rank)]) == rank) {
        answer_pings(store, prefix, rank, deadline);
      }
    }
    return {};
  }
  const int first = first_rank_of_host(membership, membership.self());
  if (first == 0) return {};
  if (first == membership.rank) {
    const ClockOffset offset = ask(store, prefix, first, deadline);
    store.set(answer(prefix, first), fmt::format("{} {}", offset.offset_ns, offset.error_ns));
    return offset;
  }
  const std::string text = store.get(answer(prefix, first), deadline);
  char* rest = nullptr;
  ClockOffset offset;
  offset.offset_ns = std::strtoll(text.c_str(), &rest, 10);
  offset.error_ns = std::strtoll(rest, nullptr, 10);
  return offset;
}

}  // namespace lockstep
