#include "lockstep/comm/gloo/bring_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo/activity.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongestAddress = 4096;

std::string address_key(int rank) { return fmt::format("gloo/address/{}", rank); }

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
      throw Error("the address that " + whose + " left in the store is not readable", "gloo",
                  "run the same build of the program on every rank");
    }
    if (index == 0) return text.substr(space + 1, length);
    at = space + 1 + length;
  }
}

[[noreturn]] void throw_missing(const Membership& membership) {
  std::string names;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    if (membership.store->try_get(address_key(rank))) continue;
    names += (names.empty() ? "" : ", ") + name_of(membership, rank);
  }
  throw TimeoutError(fmt::format("the group \"{}\" did not come up in {:.1f} s: not there: {}", membership.group,
                                 static_cast<double>(membership.timeout.count()) / 1000, names),
                     membership.where() + ", engine gloo",
                     "read the log of the rank named; check that every rank creates the same groups in the same order");
}

void throw_if_lost(const Membership& membership) {
  for (const LostRank& lost : membership.store->lost_ranks()) {
    for (int rank = 0; rank < membership.world_size; ++rank) {
      if (membership.peers[static_cast<std::size_t>(rank)].global_rank != lost.rank) continue;
      throw Error(fmt::format("lost {} while the group came up: {}", name_of(membership, rank), lost.cause),
                  membership.where() + ", engine gloo", "read that rank's own message: it failed first");
    }
  }
}

}  // namespace

std::vector<std::string> exchange_addresses(const Membership& membership, Mesh& mesh, Deadline deadline) {
  std::vector<std::string> mine(static_cast<std::size_t>(membership.world_size));
  std::vector<std::string> keys;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    keys.push_back(address_key(rank));
    if (rank != membership.rank) mine[static_cast<std::size_t>(rank)] = mesh.address_for(rank);
  }
  membership.store->set(keys[static_cast<std::size_t>(membership.rank)], pack(mine));
  for (bool all = false; !all;) {
    try {
      membership.store->wait(keys, Deadline::after(std::min(milliseconds(250), deadline.remaining())));
      all = true;
    } catch (const TimeoutError&) {
      throw_if_lost(membership);
      if (deadline.passed()) throw_missing(membership);
    }
  }
  std::vector<std::string> theirs(mine.size());
  for (int rank = 0; rank < membership.world_size; ++rank) {
    if (rank == membership.rank) continue;
    const std::string text = membership.store->get(address_key(rank), deadline);
    theirs[static_cast<std::size_t>(rank)] = unpack(text, membership.rank, name_of(membership, rank));
  }
  return theirs;
}

}  // namespace lockstep
