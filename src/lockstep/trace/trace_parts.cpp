#include "lockstep/trace/trace_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kTelling{5};
constexpr const char* kFix = "give every host's launcher the same --trace and --trace-steps";

}  // namespace

TraceParts::TraceParts(const Membership& membership, std::string prefix)
    : membership_(membership), prefix_(std::move(prefix)) {}

std::string TraceParts::key_of(const char* what, int rank) const {
  return fmt::format("{}/{}/{}", prefix_, what, rank);
}

void TraceParts::agree(const std::string& settings, const std::string& problem, Deadline deadline) {
  Store& store = *membership_.store;
  store.set(key_of("problem", membership_.rank), problem);
  store.set(key_of("settings", membership_.rank), settings);
  try {
    compare(settings, deadline);
  } catch (const Error&) {
    store.set(key_of("told", membership_.rank), "");
    if (membership_.rank == 0) wait_until_told();
    throw;
  }
}

// Rank 0 may serve the store, in which the others read why the trace is refused.
void TraceParts::wait_until_told() {
  std::vector<std::string> keys;
  for (int rank = 1; rank < membership_.world_size; ++rank) keys.push_back(key_of("told", rank));
  try {
    membership_.store->wait(keys, Deadline::after(kTelling));
  } catch (const Error&) {  // a rank has ended, or does not trace: this rank's error is reported
  }
}

void TraceParts::compare(const std::string& settings, Deadline deadline) {
  Store& store = *membership_.store;
  for (int rank = 0; rank < membership_.world_size; ++rank) {
    std::string theirs;
    try {
      theirs = store.get(key_of("settings", rank), deadline);
    } catch (const TimeoutError&) {
      throw Error(fmt::format("rank {} does not trace, but rank {} does", rank, membership_.rank),
                  membership_.where() + ", trace", kFix);
    }
    const std::string trouble = store.get(key_of("problem", rank), deadline);
    if (!trouble.empty()) {
      throw Error(fmt::format("the trace cannot be written: {}", trouble), membership_.where() + ", trace",
                  "name a file in a folder that rank 0 may write to");
    }
    if (theirs == settings) continue;
    throw Error(fmt::format("rank {} traces {}, but rank {} traces {}", rank, theirs, membership_.rank, settings),
                membership_.where() + ", trace", kFix);
  }
}

void TraceParts::send(const RankTrace& part) {
  membership_.store->set(key_of("part", membership_.rank), to_bytes(part));
}

bool TraceParts::is_lost(int rank) const {
  const int global = membership_.peers[static_cast<std::size_t>(rank)].global_rank;
  const std::vector<LostRank> lost = membership_.store->lost_ranks();
  return std::any_of(lost.begin(), lost.end(),
                     [&](const LostRank& each) { return each.rank == global && !each.silent; });
}

int TraceParts::writer() {
  int rank = 0;
  while (rank < membership_.rank && is_lost(rank)) ++rank;
  return rank;
}

TraceParts::Collected TraceParts::collect(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kBetweenLooks{100};  // at the list of lost ranks
  const Deadline deadline = Deadline::after(patience);
  Store& store = *membership_.store;
  Collected result;
  for (int rank = 0; rank < membership_.world_size; ++rank) {
    const std::string key = key_of("part", rank);
    std::optional<std::string> bytes = store.try_get(key);
    bool lost = false;
    while (!bytes && !lost && !deadline.passed()) {
      lost = is_lost(rank);
      try {
        bytes = store.get(key, Deadline::after(lost ? std::chrono::milliseconds(0) : kBetweenLooks));
      } catch (const TimeoutError&) {
        continue;
      }
    }
    if (!bytes) {
      const char* why = lost ? "was lost before it sent its events" : "sent no events in time";
      result.missing.push_back(fmt::format("rank {} {}", rank, why));
      continue;
    }
    result.parts.push_back(rank_trace_from(*bytes));
    const std::string& cut_off = result.parts.back().cut_off;
    if (!cut_off.empty()) result.missing.push_back(fmt::format("rank {}: {}", rank, cut_off));
  }
  return result;
}

}  // namespace lockstep
