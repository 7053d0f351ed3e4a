#include "lockstep/comm/mesh/bring_up/bring_up.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/slow_notice.h"
#include "lockstep/comm/failure/group_failure.h"
#include "lockstep/comm/failure/late_ranks.h"
#include "lockstep/comm/mesh/diagnosis.h"
#include "lockstep/comm/mesh/talk_times.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongestAddress = 4096;

const char* const kAddressPrefix = "mesh/address/";
const char* const kConnectedPrefix = "mesh/connected/";

// Each address is written as its length, a space, and its bytes.
std::string pack(const std::vector<std::string>& addresses) {
  std::string text;
  for (const std::string& address : addresses) text += std::to_string(address.size()) + ' ' + address;
  return text;
}

std::vector<int> all_ranks(const Membership& membership) {
  std::vector<int> all(static_cast<std::size_t>(membership.world_size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string unpack(const std::string& text, int index, const std::string& whose) {
  std::size_t at = 0;
  for (;; --index) {
    const std::size_t space = text.find(' ', at);
    std::size_t length = 0;
    bool good = space != std::string::npos && space > at && space - at <= 4;
    for (std::size_t i = at; good && i < space; ++i) {
      good = text[i] >= '0' && text[i] <= '9';
      length = length * 10 + static_cast<std::size_t>(text[i] - '0');
    }
    if (!good || length > kLongestAddress || length > text.size() - space - 1) {
      throw Error("the address that " + whose + " left in the store is not readable", "this group",
                  "run the same build of the program on every rank");
    }
    if (index == 0) return text.substr(space + 1, length);
    at = space + 1 + length;
  }
}

// Those of `ranks` whose key is not set.
LateRanks late_ranks(const Membership& membership, const std::vector<int>& ranks,
                     const std::vector<std::string>& keys) {
  const auto there = membership.store->try_get_all(keys);
  const std::vector<LostRank> lost_ranks = membership.store->lost_ranks();
  LateRanks late;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (there[i]) continue;
    late.push_back({named_rank(membership, ranks[i]), "has not arrived", ""});
    for (const LostRank& lost : lost_ranks) {
      if (lost.rank == late.back().rank.in_job) late.back().seen = lost.cause;
    }
  }
  return late;
}

// The ranks that have found a failure publish it.
void throw_if_failed(const Membership& membership) {
  const auto published = membership.store->try_get(Diagnosis::kFailureKey);
  if (published) GroupFailure::decode(*published).raise(membership.rank);
}

void throw_if_marked_lost(const Membership& membership) {
  for (const LostRank& lost : membership.store->lost_ranks()) {
    if (lost.silent) continue;  // it may continue, and has until the deadline
    for (int rank = 0; rank < membership.world_size; ++rank) {
      if (membership.peers[static_cast<std::size_t>(rank)].global_rank != lost.rank) continue;
      GroupFailure::rank_lost(start_of_group(membership), named_rank(membership, rank), lost.cause)
          .raise(membership.rank);
    }
  }
}

// The addresses that the others have stored for this rank, once all have stored theirs.
std::vector<std::string> read_addresses(const Membership& membership) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    if (rank != membership.rank) keys.push_back(kAddressPrefix + std::to_string(rank));
  }
  const auto texts = membership.store->try_get_all(keys);
  std::vector<std::string> theirs(static_cast<std::size_t>(membership.world_size));
  std::size_t next = 0;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    if (rank == membership.rank) continue;
    const std::string text = texts[next++].value_or("");
    theirs[static_cast<std::size_t>(rank)] = unpack(text, membership.rank, name_of(membership, rank));
  }
  return theirs;
}

}  // namespace

void wait_for_ranks(const Membership& membership, const std::vector<int>& ranks, const std::string& prefix,
                    Deadline deadline) {
  std::vector<std::string> keys;
  for (const int rank : ranks) keys.push_back(prefix + std::to_string(rank));
  const auto since = Deadline::Clock::now();
  SlowNotice notice(deadline);
  const milliseconds look = TalkTimes(membership).between_start_looks();
  for (;;) {
    try {
      return membership.store->wait(keys, Deadline::after(std::min(look, deadline.remaining())));
    } catch (const TimeoutError&) {
      throw_if_failed(membership);
      throw_if_marked_lost(membership);
      const auto waited = Deadline::Clock::now() - since;
      const bool warns = notice.due(waited);
      if (!warns && !deadline.passed()) continue;
      const double waited_s = std::chrono::duration<double>(waited).count();
      const LateRanks late = late_ranks(membership, ranks, keys);
      const std::string operation = start_of_group(membership);
      if (deadline.passed()) GroupFailure::start_timed_out(operation, waited_s, late).raise(membership.rank);
      log_warning("{}", slow_operation_text(operation, waited_s, describe(late, /*over_network=*/true), ""));
    }
  }
}

std::vector<std::string> exchange_addresses(const Membership& membership, Mesh& mesh, Deadline deadline) {
  std::vector<std::string> mine(static_cast<std::size_t>(membership.world_size));
  const std::vector<int> all = all_ranks(membership);
  for (const int rank : all) {
    if (rank != membership.rank) mine[static_cast<std::size_t>(rank)] = mesh.address_for(rank);
  }
  membership.store->set(kAddressPrefix + std::to_string(membership.rank), pack(mine));
  wait_for_ranks(membership, all, kAddressPrefix, deadline);
  return read_addresses(membership);
}

void wait_until_all_connected(const Membership& membership, Deadline deadline) {
  membership.store->set(kConnectedPrefix + std::to_string(membership.rank), "1");
  wait_for_ranks(membership, all_ranks(membership), kConnectedPrefix, deadline);
}

}  // namespace lockstep
