#include "lockstep/comm/mesh/bring_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/comm/mesh/activity.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongestAddress = 4096;

const char* const kAddressPrefix = "mesh/address/";

// One address per line of text: its length, a space, its bytes.
std::string pack(const std::vector<std::string>& addresses) {
  std::string text;
  for (const std::string& address : addresses) text += std::to_string(address.size()) + ' ' + address;
  return text;
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

[[noreturn]] void throw_missing(const Membership& membership, const std::vector<int>& ranks,
                                const std::string& prefix) {
  std::string names;
  for (const int rank : ranks) {
    if (membership.store->try_get(prefix + std::to_string(rank))) continue;
    names += (names.empty() ? "" : ", ") + name_of(membership, rank);
  }
  throw TimeoutError(fmt::format("the group \"{}\" did not come up in {:.1f} s: not there: {}", membership.group,
                                 static_cast<double>(membership.timeout.count()) / 1000, names),
                     membership.where(),
                     "read the log of the rank named; check that every rank creates the same groups in the same order");
}

void throw_if_lost(const Membership& membership) {
  for (const LostRank& lost : membership.store->lost_ranks()) {
    if (lost.silent) continue;  // it may go on, and has until the deadline
    for (int rank = 0; rank < membership.world_size; ++rank) {
      if (membership.peers[static_cast<std::size_t>(rank)].global_rank != lost.rank) continue;
      throw_caused(Error(fmt::format("lost {} while the group came up: {}", name_of(membership, rank), lost.cause),
                         membership.where(), "read that rank's own message: it failed first"),
                   {FailureCause::Kind::LostPeer, lost.rank});
    }
  }
}

}  // namespace

void wait_for_ranks(const Membership& membership, const std::vector<int>& ranks, const std::string& prefix,
                    Deadline deadline) {
  std::vector<std::string> keys;
  for (const int rank : ranks) keys.push_back(prefix + std::to_string(rank));
  for (;;) {
    try {
      return membership.store->wait(keys, Deadline::after(std::min(milliseconds(250), deadline.remaining())));
    } catch (const TimeoutError&) {
      throw_if_lost(membership);
      if (deadline.passed()) throw_missing(membership, ranks, prefix);
    }
  }
}

std::vector<std::string> exchange_addresses(const Membership& membership, Mesh& mesh, Deadline deadline) {
  std::vector<std::string> mine(static_cast<std::size_t>(membership.world_size));
  std::vector<int> all(mine.size());
  std::iota(all.begin(), all.end(), 0);
  for (const int rank : all) {
    if (rank != membership.rank) mine[static_cast<std::size_t>(rank)] = mesh.address_for(rank);
  }
  membership.store->set(kAddressPrefix + std::to_string(membership.rank), pack(mine));
  wait_for_ranks(membership, all, kAddressPrefix, deadline);
  std::vector<std::string> theirs(mine.size());
  for (int rank = 0; rank < membership.world_size; ++rank) {
    if (rank == membership.rank) continue;
    const std::string text = membership.store->get(kAddressPrefix + std::to_string(rank), deadline);
    theirs[static_cast<std::size_t>(rank)] = unpack(text, membership.rank, name_of(membership, rank));
  }
  return theirs;
}

}  // namespace lockstep
