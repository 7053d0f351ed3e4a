#include "lockstep/comm/shm/all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/base/spin.h"

namespace lockstep::shm {
namespace {

// Large enough that taking a chunk costs almost nothing in comparison, small enough to divide the rest of the work.
constexpr std::size_t kChunkBytes = std::size_t{128} << 10;
// The two barriers of the algorithm in place cost about as much as sending this many bytes to every rank.
constexpr std::size_t kTinyBudgetBytes = 2048;
// A rank that has finished its slice polls this often before it takes chunks of others: a few microseconds.
constexpr int kPatienceLooks = 150;
constexpr int kEagerLooks = 50;  // polls of these without a pause: a third of the time that a flag needs

std::size_t tiny_bytes_for(int world_size) {
  const std::size_t share = kTinyBudgetBytes / static_cast<std::size_t>(world_size);
  return std::clamp<std::size_t>(share, 32, sizeof(TinyBox::payload));
}

}  // namespace

std::pair<std::size_t, std::size_t> slice_of(const Elements& elements, int rank, int world_size) {
  const std::size_t line = kLineBytes / element_bytes(elements.type);
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t lines = (elements.count + line - 1) / line;
  const std::size_t per_rank = (lines + ranks - 1) / ranks * line;
  const std::size_t begin = std::min(elements.count, per_rank * static_cast<std::size_t>(rank));
  return {begin, std::min(elements.count, begin + per_rank)};
}

AllReduce::AllReduce(Group& group, Allocations& allocations, bool one_address_space)
    : group_(group),
      allocations_(allocations),
      one_address_space_(one_address_space),
      tiny_bytes_(tiny_bytes_for(group.world_size())),
      slots_(group),
      tiny_(group),
      rounds_(group) {}

Location AllReduce::locate(const std::byte* data, const SymmetricBuffer* buffer) const {
  if (one_address_space_) return {kPointer, reinterpret_cast<std::uintptr_t>(data)};
  if (buffer == nullptr) return {kNowhere, 0};
  return {buffer->segment(), static_cast<std::uint64_t>(data - buffer->part(group_.rank()))};
}

void AllReduce::prepare(InFlightAllReduce& it, Call call, const Elements& elements, Reduction reduction) {
  it.call = std::move(call);
  it.elements = elements;
  it.reduction = reduction;
  it.way = InFlightAllReduce::Way::Slot;
  it.stage = InFlightAllReduce::Stage::Queued;
  it.awaited = false;
  it.own_slice_taken = false;
  it.looks = Looks();
  it.failure = nullptr;
  it.over.store(false, std::memory_order_relaxed);
}

void AllReduce::meet(const Call& call, const std::byte* data, const SymmetricBuffer* buffer) {
  slots_.enter(call, locate(data, buffer));
  slots_.await_entered(call);
  check_announcements(call);
}

bool AllReduce::may_enter(const InFlightAllReduce& started) {
  return slots_.may_enter(started.call.sequence) && (!is_tiny(started.elements) || tiny_.may_send());
}

void AllReduce::enter(InFlightAllReduce& started) {
  group_.throw_if_broken();
  if (is_tiny(started.elements)) {
    enter_tiny(started);
  } else {
    enter_slot(started);
  }
  started.stage = InFlightAllReduce::Stage::Entered;
}

void AllReduce::enter_tiny(InFlightAllReduce& started) {
  started.way = InFlightAllReduce::Way::Tiny;
  started.tiny_number = tiny_.next();
  slots_.announce(started.call);  // for ranks that wait elsewhere, and for error messages
  tiny_.send(started.call.announcement, started.elements.data, started.elements.bytes());
}

void AllReduce::enter_slot(InFlightAllReduce& started) {
  const Elements& elements = started.elements;
  started.buffer = one_address_space_ ? nullptr : allocations_.find(elements.data, elements.bytes());
  Location location = locate(elements.data, started.buffer.get());
  if (location.segment == kNowhere && elements.bytes() <= group_.layout().small_box_bytes()) {
    location = {kStaged, small_boxes_used_++ % kSmallBoxes};
    std::memcpy(group_.at(group_.layout().small_box(location.offset, group_.rank())), elements.data, elements.bytes());
  }
  slots_.enter(started.call, location);
}

void AllReduce::advance(InFlightAllReduce& started) {
  if (started.way == InFlightAllReduce::Way::Tiny) return;
  if (started.stage == InFlightAllReduce::Stage::Entered && slots_.all_entered(started.call.sequence)) resolve(started);
  if (started.stage != InFlightAllReduce::Stage::InPlace || started.own_slice_taken) return;
  work_slice(started, group_.rank());
  started.own_slice_taken = true;  // by this rank or others: it works until no chunk is left
}

bool AllReduce::step(InFlightAllReduce& started) {
  if (started.way == InFlightAllReduce::Way::Tiny) return step_tiny(started);
  advance(started);
  switch (started.stage) {
    case InFlightAllReduce::Stage::InPlace:
      if (!slots_.all_done(started.call.sequence, started.chunks_per_slice)) return false;
      break;
    case InFlightAllReduce::Stage::Small:
      run_small(started);
      break;
    case InFlightAllReduce::Stage::Staged:  // here and not in `advance`, because the oldest operation owns the rounds
      if (!started.staged->move_on(rounds_)) return false;
      break;
    default:
      return false;
  }
  started.stage = InFlightAllReduce::Stage::Finished;
  slots_.retire(started.call.sequence);
  return true;
}

AllReduce::Hurdle AllReduce::hurdle(const InFlightAllReduce& started, const Call& call) {
  using What = Hurdle::What;
  if (started.stage == InFlightAllReduce::Stage::Queued) return {What::Slot, 0, &call};
  if (started.way == InFlightAllReduce::Way::Tiny) return {What::Arrivals, started.tiny_number, &call};
  if (started.stage == InFlightAllReduce::Stage::InPlace) return {What::Chunks, started.chunks_per_slice, &call};
  if (started.stage == InFlightAllReduce::Stage::Staged) return {What::Round, started.staged->round(), &call};
  return {What::Entries, 0, &call};
}

bool AllReduce::is_taken(const Hurdle& hurdle) {
  switch (hurdle.what) {
    case Hurdle::What::Slot:
      return slots_.is_slot_free(hurdle.call->sequence);
    case Hurdle::What::Arrivals:
      return tiny_.all_arrived(hurdle.number);
    case Hurdle::What::Entries:
      return slots_.all_entered(hurdle.call->sequence);
    case Hurdle::What::Chunks:
      return slots_.all_done(hurdle.call->sequence, hurdle.number);
    case Hurdle::What::Round:
      return rounds_.all_there(hurdle.number);
  }
  return true;
}

bool AllReduce::is_missing(const Hurdle& hurdle, int rank) {
  switch (hurdle.what) {
    case Hurdle::What::Slot:
      return slots_.holds_slot(hurdle.call->sequence, rank);
    case Hurdle::What::Arrivals:
      return !tiny_.has_arrived(hurdle.number, rank);
    case Hurdle::What::Entries:
      return !slots_.has_entered(hurdle.call->sequence, rank);
    case Hurdle::What::Chunks:
      return slots_.is_working(rank);
    case Hurdle::What::Round:
      return rounds_.is_missing(hurdle.number, rank);
  }
  return false;
}

// Once another thread has finished the operation, another one may have its slot, so `over` is checked as well.
void AllReduce::await(const Hurdle& hurdle, const std::atomic<bool>& over) {
  const auto ready = [&] { return is_taken(hurdle) || over.load(std::memory_order_acquire); };
  const auto missing = [&](int rank) { return is_missing(hurdle, rank); };
  if (hurdle.what == Hurdle::What::Slot) {
    group_.await_without_bell(*hurdle.call, ready, missing);
  } else {
    group_.await(*hurdle.call, ready, missing);
  }
}

void AllReduce::look_at_peers(const InFlightAllReduce& started, Looks* looks) {
  Call call = started.call;
  if (looks != nullptr) call.deadline = looks->deadline();
  const Hurdle what = hurdle(started, call);
  group_.look_at_peers(
      call, [&] { return is_taken(what); }, [&](int rank) { return is_missing(what, rank); },
      looks != nullptr ? &looks->wait() : nullptr);
}

void AllReduce::finish(InFlightAllReduce& started) {
  while (!step(started)) {
    if (!help(started)) await(hurdle(started, started.call), started.over);
  }
}

bool AllReduce::step_tiny(InFlightAllReduce& started) {
  if (!tiny_.all_arrived(started.tiny_number)) return false;
  std::array<const std::byte*, kMaxRanks> sources;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    if (tiny_.announcement(started.tiny_number, rank) != started.call.announcement) check_announcements(started.call);
    sources[static_cast<std::size_t>(rank)] = tiny_.payload(started.tiny_number, rank);
  }
  reduce(started.elements.type, started.reduction, sources.data(), group_.world_size(), &started.elements.data, 1,
         started.elements.count);
  tiny_.finish_read();
  started.stage = InFlightAllReduce::Stage::Finished;
  slots_.retire(started.call.sequence);
  return true;
}

// All ranks have entered: checks that they agree, and chooses the algorithm.
void AllReduce::resolve(InFlightAllReduce& started) {
  check_announcements(started.call);
  const std::size_t all_bytes = started.elements.bytes();
  find_copies(
      started.copies, started.call, [all_bytes](int) { return all_bytes; }, started.buffer.get());
  if (!started.copies.empty()) {
    const auto [begin, end] = slice_of(started.elements, 0, group_.world_size());
    const std::size_t bytes = (end - begin) * element_bytes(started.elements.type);
    started.chunks_per_slice = (bytes + kChunkBytes - 1) / kChunkBytes;
    started.stage = InFlightAllReduce::Stage::InPlace;
    return;
  }
  bool all_in_boxes = true;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    all_in_boxes = all_in_boxes && slots_.location(started.call.sequence, rank).segment == kStaged;
  }
  if (all_in_boxes) {
    started.stage = InFlightAllReduce::Stage::Small;
  } else {
    started.staged.emplace(group_, started.elements, started.reduction);
    started.stage = InFlightAllReduce::Stage::Staged;
  }
}

void AllReduce::run_small(InFlightAllReduce& started) {
  std::array<const std::byte*, kMaxRanks> sources;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const Location location = slots_.location(started.call.sequence, rank);
    sources[static_cast<std::size_t>(rank)] = group_.at(group_.layout().small_box(location.offset, rank));
  }
  reduce(started.elements.type, started.reduction, sources.data(), group_.world_size(), &started.elements.data, 1,
         started.elements.count);
}

void AllReduce::work_slice(InFlightAllReduce& started, int owner) {
  const std::size_t size = element_bytes(started.elements.type);
  const std::size_t step = kChunkBytes / size;
  slots_.work(started.call.sequence, started.chunks_per_slice, owner, [&](int whose, std::uint64_t chunk) {
    const auto [begin, end] = slice_of(started.elements, whose, group_.world_size());
    const std::size_t from = std::min(end, begin + static_cast<std::size_t>(chunk) * step);
    std::array<std::byte*, kMaxRanks> copies;
    for (std::size_t rank = 0; rank < started.copies.size(); ++rank) {
      copies[rank] = started.copies[rank] + from * size;
    }
    reduce(started.elements.type, started.reduction, copies.data(), group_.world_size(), copies.data(),
           group_.world_size(), std::min(end - from, step));
  });
}

// Takes chunks that others have not started: those ranks may be busy elsewhere, or wait for this very core.
bool AllReduce::help(InFlightAllReduce& started) {
  if (started.stage != InFlightAllReduce::Stage::InPlace) return false;
  const int looks = group_.ranks_share_cores() ? 0 : kPatienceLooks;
  for (int look = 0; look < looks; ++look) {
    if (slots_.all_done(started.call.sequence, started.chunks_per_slice)) return true;
    if (look >= kEagerLooks) relax_cpu();
  }
  for (int step = 1; step < group_.world_size(); ++step) {
    work_slice(started, (group_.rank() + step) % group_.world_size());
  }
  return slots_.all_done(started.call.sequence, started.chunks_per_slice);
}

// All ranks have entered.
void AllReduce::check_announcements(const Call& call) {
  bool agreed = true;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    agreed = agreed && slots_.announcement(call.sequence, rank) == call.announcement;
  }
  if (agreed) return;
  std::vector<Announcement> by_rank;
  for (int rank = 0; rank < group_.world_size(); ++rank) by_rank.push_back(slots_.announcement(call.sequence, rank));
  group_.fail_disagreement(by_rank);
}

}  // namespace lockstep::shm
