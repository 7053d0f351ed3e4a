#include "lockstep/comm/shm/memory/allocations.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::shm {

std::shared_ptr<SymmetricBuffer> Allocations::allocate(std::size_t bytes, Deadline deadline, Supply supply) {
  const std::lock_guard<std::mutex> one_at_a_time(allocate_mutex_);
  const auto ranks = static_cast<std::size_t>(group_.world_size());
  if (bytes > std::numeric_limits<std::size_t>::max() / 2 / ranks) {
    throw Error(fmt::format("cannot allocate {} bytes on each of {} ranks", bytes, ranks), "allocate", "ask for less");
  }
  const std::size_t part_bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  const std::size_t total_bytes = part_bytes * ranks;
  const Call call{kAllocating, 0, deadline};

  // First round: all ranks have published their sizes, and have rank 0's memory in their inboxes.
  ++round_;
  std::optional<Error> mine;  // the failure of this rank; thrown after the others know it
  const Label label{group_.header().token, kFirstAllocationNumber + round_};
  Segment segment;
  if (group_.rank() == 0) {
    try {
      segment = supply == Supply::AtOnce ? sharing_.make(total_bytes) : sharing_.make_file(total_bytes);
      for (int rank = 1; rank < group_.world_size(); ++rank) {
        if (sharing_.offer(segment, {group_.load(group_.cell(rank).inbox), label}, deadline)) continue;
        const NamedRank gone = group_.named(rank);
        throw Error(gone.name + " has gone", "allocate", fmt::format("read the log of rank {}", gone.in_job));
      }
    } catch (const Error& error) {
      mine = error;
    }
  }
  SetupCell& cell = setup(group_.rank());
  group_.store(cell.bytes, bytes);
  group_.store(cell.failed, mine ? 1 : 0);
  exchange_round(call);
  check_same_bytes(bytes);
  const bool offered = group_.load(setup(0).failed) == 0;

  // Second round: all ranks have the memory, or none keeps it.
  ++round_;
  if (offered) {
    try {
      if (!segment.mapping) segment = sharing_.accept(label, total_bytes, std::chrono::milliseconds(0));
      if (!segment.mapping) throw Error("rank 0's memory has not arrived", "allocate", "report this");
      if (supply == Supply::AtOnce)
        sharing_.reserve(segment, part_bytes * static_cast<std::size_t>(group_.rank()), part_bytes);
    } catch (const Error& error) {
      mine = error;
    }
  }
  group_.store(setup(group_.rank()).failed, mine ? 1 : 0);
  exchange_round(call);
  if (mine) throw Error(*mine);
  throw_if_failed(bytes);

  if (supply == Supply::AtOnce) segment.fd.reset();
  auto buffer =
      std::make_shared<SymmetricBuffer>(std::move(segment.mapping), std::move(segment.fd), next_segment_++, part_bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = by_address_.begin(); it != by_address_.end();) {
    it = it->second.expired() ? by_address_.erase(it) : std::next(it);
  }
  by_address_[buffer->part(group_.rank())] = buffer;
  return buffer;
}

void Allocations::exchange_round(const Call& call) {
  group_.publish(group_.cell(group_.rank()).setup_round, round_, [] { return true; });
  const auto is_missing = [this](int rank) { return group_.load(group_.cell(rank).setup_round) < round_; };
  group_.await(
      call,
      [&] {
        for (int rank = 0; rank < group_.world_size(); ++rank) {
          if (is_missing(rank)) return false;
        }
        return true;
      },
      is_missing);
}

void Allocations::check_same_bytes(std::size_t bytes) {
  bool agreed = true;
  std::vector<RankCall> calls;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const std::uint64_t theirs = group_.load(setup(rank).bytes);
    agreed = agreed && theirs == bytes;
    calls.push_back({group_.named(rank).name, fmt::format("allocate of {} bytes", theirs)});
  }
  if (!agreed) group_.fail(GroupFailure::disagreement(calls));
}

void Allocations::throw_if_failed(std::size_t bytes) {
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    if (group_.load(setup(rank).failed) == 0) continue;
    const NamedRank it = group_.named(rank);
    throw_caused(Error(fmt::format("{} could not allocate its {} bytes of shared memory", it.name, bytes), "allocate",
                       fmt::format("read the error of rank {}, which has the cause", it.in_job)),
                 {FailureCause::Kind::AbortedByPeer, it.in_job});
  }
}

std::shared_ptr<SymmetricBuffer> Allocations::find(const std::byte* data, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = by_address_.upper_bound(data);
  if (after == by_address_.begin()) return nullptr;
  auto buffer = std::prev(after)->second.lock();
  if (!buffer) return nullptr;
  const auto offset = static_cast<std::size_t>(data - buffer->part(group_.rank()));
  if (offset > buffer->part_bytes() || bytes > buffer->part_bytes() - offset) return nullptr;
  return buffer;
}

void Allocations::detach() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [address, weak] : by_address_) {
    const auto buffer = weak.lock();
    if (!buffer || buffer->has_file()) continue;  // whoever is stuck there writes what was promised
    const std::size_t offset = buffer->part_bytes() * static_cast<std::size_t>(group_.rank());
    buffer->mapping().make_private(offset, buffer->part_bytes());
  }
  by_address_.clear();
}

}  // namespace lockstep::shm
