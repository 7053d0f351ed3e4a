#include "lockstep/checkpoint/part_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/net/store/patience.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Interval between two checks for lost ranks. It grows with the number of ranks, because one thread serves the store.
milliseconds look_interval(int ranks) { return std::max(milliseconds(250), milliseconds(5 * ranks)); }

constexpr const char* kExchangeFix = "read that rank's log; earlier checkpoints are whole, so the job can resume";

std::string part_key(int rank) { return fmt::format("part/{}", rank); }

}  // namespace

PartExchange::PartExchange(const Membership& membership, std::string prefix, milliseconds timeout)
    : membership_(membership),
      prefix_(std::move(prefix)),
      deadline_(Deadline::after(timeout, membership.patience ? membership.patience->extension() : nullptr)) {}

void PartExchange::give_part(const std::string& text) { set(part_key(membership_.rank), text); }

std::vector<std::string> PartExchange::collect_parts() {
  std::vector<std::string> parts;
  for (int rank = 1; rank < membership_.world_size; ++rank) parts.push_back(wait_for(part_key(rank), rank));
  return parts;
}

void PartExchange::fail(const std::string& reason) noexcept {
  if (membership_.world_size == 1) return;
  try {
    const std::string text = "!" + reason;
    if (membership_.rank != 0) {
      membership_.store->set(prefix_ + part_key(membership_.rank), text);
      return;
    }
    membership_.store->set(prefix_ + "end", text);
    membership_.store->compare_set(prefix_ + "open", "", text);
  } catch (const std::exception&) {
    // Without the store the others notice the store's end, or reach their deadline.
  }
}

void PartExchange::forget(const Membership& membership, const std::string& prefix) noexcept {
  if (membership.world_size == 1) return;
  try {
    membership.store->delete_key(prefix + "open");
    membership.store->delete_key(prefix + "end");
    for (int rank = 1; rank < membership.world_size; ++rank) membership.store->delete_key(prefix + part_key(rank));
  } catch (const std::exception&) {
    // The keys occupy a little memory until the job ends.
  }
}

void PartExchange::set(const std::string& key, const std::string& text) {
  if (membership_.world_size > 1) membership_.store->set(prefix_ + key, "=" + text);
}

std::string PartExchange::wait_for(const std::string& key, int from) {
  for (;;) {
    try {
      if (membership_.patience) membership_.patience->waiting();
      const auto slice = std::min(deadline_.remaining(), look_interval(membership_.world_size));
      return text_of(membership_.store->get(prefix_ + key, Deadline::after(slice)), from);
    } catch (const TimeoutError&) {
      throw_if_lost(key);
      if (!deadline_.passed()) continue;
      throw TimeoutError(fmt::format("the checkpoint was not written: nothing was heard from rank {} ({})", from, key),
                         membership_.where(), kExchangeFix);
    }
  }
}

std::string PartExchange::text_of(const std::string& message, int from) const {
  if (message.substr(0, 1) == "=") return message.substr(1);
  throw_recorded(Error(fmt::format("the checkpoint was not written: rank {} failed: {}", from, message.substr(1)),
                       membership_.where(), kExchangeFix),
                 {FailureCause::Kind::AbortedByPeer, membership_.peers[static_cast<std::size_t>(from)].global_rank});
}

void PartExchange::throw_if_failed() {
  if (membership_.rank != 0) {
    if (const auto message = membership_.store->try_get(prefix_ + "end")) text_of(*message, 0);
    return;
  }
  for (int rank = 1; rank < membership_.world_size; ++rank) {
    if (const auto message = membership_.store->try_get(prefix_ + part_key(rank))) text_of(*message, rank);
  }
}

bool PartExchange::has_rank_0_failed() const noexcept {
  try {
    return membership_.store->try_get(prefix_ + "end").value_or("").substr(0, 1) == "!";
  } catch (const std::exception&) {
    return false;
  }
}

void PartExchange::throw_if_lost(const std::string& key) const {
  for (const LostRank& lost : membership_.store->lost_ranks()) {
    if (lost.silent) continue;  // it is stopped and may continue: it has until the deadline
    for (std::size_t rank = 0; rank < membership_.peers.size(); ++rank) {
      if (membership_.peers[rank].global_rank != lost.rank || static_cast<int>(rank) == membership_.rank) continue;
      throw_recorded(Error(fmt::format("the checkpoint was not written: rank {} on {} was lost ({}) before \"{}\"",
                                       rank, lost.host, lost.cause, key),
                           membership_.where(), kExchangeFix),
                     {FailureCause::Kind::LostPeer, lost.rank});
    }
  }
}

}  // namespace lockstep
