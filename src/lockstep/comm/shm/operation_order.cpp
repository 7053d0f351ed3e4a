#include "lockstep/comm/shm/operation_order.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/staged_all_reduce.h"

namespace lockstep::shm {
namespace {

using Clock = std::chrono::steady_clock;

// Large enough that taking a chunk costs nothing beside it, small enough to share out what is left.
constexpr std::size_t kChunkBytes = std::size_t{128} << 10;
// Both barriers of the way in place cost about as much as sending this much to everybody.
constexpr std::size_t kTinyBudgetBytes = 2048;
// A rank that has finished its slice gives the others this long before it takes chunks of theirs.
constexpr std::chrono::nanoseconds kPatience(2000);

std::size_t tiny_bytes_for(int world_size) {
  const std::size_t share = kTinyBudgetBytes / static_cast<std::size_t>(world_size);
  return std::clamp<std::size_t>(share, 32, sizeof(TinyBox::payload));
}

}  // namespace

/// An operation of this rank that has been entered.
class OperationOrder::Started {
 public:
  enum class Way { Tiny, Slot };
  enum class Stage { Entered, InPlace, Finished };

  Call call;
  Elements elements;
  Reduction reduction = Reduction::Sum;
  std::shared_ptr<const void> keep;
  std::shared_ptr<SymmetricBuffer> buffer;  // where the elements lie in symmetric memory
  Way way = Way::Slot;
  Stage stage = Stage::Entered;
  std::uint64_t tiny_number = 0;
  std::vector<std::byte*> copies;  // every rank's elements, once known
  std::uint64_t chunks_per_slice = 0;
  std::atomic<bool> over{false};
  std::exception_ptr failure;  // valid once over
};

OperationOrder::OperationOrder(Group& group, Allocations& allocations, bool one_address_space)
    : group_(group),
      allocations_(allocations),
      one_address_space_(one_address_space),
      tiny_bytes_(tiny_bytes_for(group.world_size())),
      slots_(group),
      tiny_(group),
      rounds_(group) {}

void OperationOrder::all_reduce(const Call& call, const Elements& elements, Reduction reduction) {
  auto started = std::make_shared<Started>();
  started->call = call;
  started->elements = elements;
  started->reduction = reduction;
  {
    const Lock lock(mutex_);
    launch(started);
    finish_until(started.get());
  }
  if (started->failure) std::rethrow_exception(started->failure);
}

std::shared_ptr<OperationOrder::Started> OperationOrder::start(const Call& call, const Elements& elements,
                                                               Reduction reduction, std::shared_ptr<const void> keep) {
  const bool tiny = elements.bytes() <= tiny_bytes_;
  if (!tiny && !one_address_space_ && !allocations_.find(elements.data, elements.bytes())) return nullptr;
  auto started = std::make_shared<Started>();
  started->call = call;
  started->elements = elements;
  started->reduction = reduction;
  started->keep = std::move(keep);
  const Lock lock(mutex_);
  move_on();
  launch(started);
  return started;
}

bool OperationOrder::poll(Started& started) {
  if (started.over.load(std::memory_order_acquire)) return true;
  const Lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) move_on();
  return started.over.load(std::memory_order_acquire);
}

void OperationOrder::wait(Started& started) {
  while (!started.over.load(std::memory_order_acquire)) {
    // Whoever holds the lock may be waiting for peers in a later operation: then this one is over already.
    const Lock lock(mutex_, std::chrono::milliseconds(1));
    if (lock.owns_lock()) finish_until(&started);
  }
  if (started.failure) std::rethrow_exception(started.failure);
}

void OperationOrder::run(const Call& call, std::byte* data, const std::function<std::size_t(int rank)>& bytes_of,
                         const Body& body) {
  const Lock lock(mutex_);
  finish_until(nullptr);
  group_.throw_if_broken();
  const auto buffer = allocations_.find(data, bytes_of(group_.rank()));
  slots_.enter(call, locate(data, buffer.get()));
  slots_.await_entered(call);
  check_announcements(call);
  body(reachable(call, bytes_of, buffer.get()), [&] { rounds_.pass(call); });
  slots_.retire(call.sequence);
}

void OperationOrder::close() noexcept {
  const Lock lock(mutex_);
  if (pending_.empty()) return;
  group_.break_group(BreakKind::Aborted, "a communicator was destroyed while operations were under way",
                     "wait for every Work before you let the communicator go");
  group_.await_idle_writers();
  fail_all(std::make_exception_ptr(Error("the communicator was destroyed before this operation was over", "",
                                         "wait for every Work before you let the communicator go")));
}

std::pair<std::size_t, std::size_t> OperationOrder::slice(const Elements& elements, int rank) const {
  const std::size_t line = kLineBytes / element_bytes(elements.type);  // slices share no line of the cache
  const auto ranks = static_cast<std::size_t>(group_.world_size());
  const std::size_t lines = (elements.count + line - 1) / line;
  const std::size_t per_rank = (lines + ranks - 1) / ranks * line;
  const std::size_t begin = std::min(elements.count, per_rank * static_cast<std::size_t>(rank));
  return {begin, std::min(elements.count, begin + per_rank)};
}

Location OperationOrder::locate(const std::byte* data, const SymmetricBuffer* buffer) const {
  if (one_address_space_) return {kPointer, reinterpret_cast<std::uintptr_t>(data)};
  if (buffer == nullptr) return {kNowhere, 0};
  return {buffer->segment(), static_cast<std::uint64_t>(data - buffer->part(group_.rank()))};
}

void OperationOrder::launch(const std::shared_ptr<Started>& started) {
  try {
    group_.throw_if_broken();
    if (started->elements.bytes() <= tiny_bytes_) {
      launch_tiny(*started);
    } else {
      launch_slot(*started);
    }
  } catch (...) {
    fail_all(std::current_exception());
    throw;
  }
  pending_.push_back(started);
}

void OperationOrder::launch_tiny(Started& started) {
  started.way = Started::Way::Tiny;
  while (!tiny_.may_send()) step(*pending_.front(), true);
  started.tiny_number = tiny_.next();
  slots_.enter(started.call, {kNowhere, 0});  // for ranks that wait elsewhere, and for messages
  tiny_.send(started.call.announcement, started.elements.data, started.elements.bytes());
}

void OperationOrder::launch_slot(Started& started) {
  const Elements& elements = started.elements;
  started.buffer = allocations_.find(elements.data, elements.bytes());
  Location location = locate(elements.data, started.buffer.get());
  if (location.segment == kNowhere && elements.bytes() <= group_.layout().small_box_bytes()) {
    location = {kStaged, small_boxes_used_++ % kSmallBoxes};
    std::memcpy(group_.at(group_.layout().small_box(location.offset, group_.rank())), elements.data, elements.bytes());
  }
  slots_.enter(started.call, location);
}

// Everything that can be done without waiting.
void OperationOrder::move_on() {
  try {
    while (!pending_.empty() && step(*pending_.front(), false)) {
    }
    // The first one may wait for chunks that others took; this rank's share of those behind it need not.
    for (const auto& started : pending_) {
      if (started->way == Started::Way::Slot) advance(*started);
    }
  } catch (...) {
    fail_all(std::current_exception());
  }
}

// This rank's share, once all have entered.
void OperationOrder::advance(Started& started) {
  if (started.stage == Started::Stage::Entered && slots_.all_entered(started.call.sequence)) resolve(started);
  if (started.stage == Started::Stage::InPlace) work_slice(started, group_.rank());
}

void OperationOrder::finish_until(const Started* last) {
  try {
    while (!pending_.empty() && (last == nullptr || !last->over.load(std::memory_order_relaxed))) {
      step(*pending_.front(), true);
    }
  } catch (...) {
    fail_all(std::current_exception());
    if (last == nullptr) throw;
  }
}

void OperationOrder::fail_all(const std::exception_ptr& failure) {
  for (const auto& started : pending_) {
    started->failure = failure;
    started->over.store(true, std::memory_order_release);
  }
  pending_.clear();
}

// Moves the oldest operation on; true once it is over.
bool OperationOrder::step(Started& started, bool may_wait) {
  const bool over = started.way == Started::Way::Tiny ? step_tiny(started, may_wait) : step_slot(started, may_wait);
  if (!over) return false;
  const std::shared_ptr<Started> held = pending_.front();
  pending_.pop_front();
  held->keep.reset();
  held->buffer.reset();
  held->over.store(true, std::memory_order_release);
  return true;
}

bool OperationOrder::step_tiny(Started& started, bool may_wait) {
  if (!may_wait && !tiny_.all_arrived(started.tiny_number)) return false;
  tiny_.await_arrived(started.call, started.tiny_number);
  std::array<const std::byte*, kMaxRanks> sources;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    if (tiny_.announcement(started.tiny_number, rank) != started.call.announcement) check_announcements(started.call);
    sources[static_cast<std::size_t>(rank)] = tiny_.payload(started.tiny_number, rank);
  }
  reduce(started.elements.type, started.reduction, sources.data(), group_.world_size(), &started.elements.data, 1,
         started.elements.count);
  tiny_.finish_read();
  slots_.retire(started.call.sequence);
  return true;
}

bool OperationOrder::step_slot(Started& started, bool may_wait) {
  if (may_wait && started.stage == Started::Stage::Entered) slots_.await_entered(started.call);
  advance(started);
  if (started.stage == Started::Stage::Entered) return false;
  if (started.stage == Started::Stage::InPlace && !slots_.all_done(started.call.sequence, started.chunks_per_slice)) {
    if (!may_wait) return false;
    help_others(started);
    slots_.await_done(started.call, started.chunks_per_slice);
  }
  slots_.retire(started.call.sequence);
  return true;
}

// All have entered: finds out whether they agree, and which way all of them go.
void OperationOrder::resolve(Started& started) {
  check_announcements(started.call);
  bool all_staged = true;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    all_staged = all_staged && slots_.location(started.call.sequence, rank).segment == kStaged;
  }
  const std::size_t all_bytes = started.elements.bytes();
  started.copies = reachable(
      started.call, [all_bytes](int) { return all_bytes; }, started.buffer.get());
  started.stage = Started::Stage::Finished;
  if (!started.copies.empty()) {
    const auto [begin, end] = slice(started.elements, 0);
    const std::size_t bytes = (end - begin) * element_bytes(started.elements.type);
    started.chunks_per_slice = (bytes + kChunkBytes - 1) / kChunkBytes;
    started.stage = Started::Stage::InPlace;
  } else if (all_staged) {
    run_small(started);
  } else {
    run_staged_all_reduce(group_, rounds_, started.call, started.elements, started.reduction);
  }
}

// Every rank's data, by rank; empty unless all ranks can reach all of it. Equal on all ranks: they look at the same
// locations, and each has mapped the segment in which its own data lie.
std::vector<std::byte*> OperationOrder::reachable(const Call& call,
                                                  const std::function<std::size_t(int rank)>& bytes_of,
                                                  const SymmetricBuffer* buffer) {
  std::vector<std::byte*> copies;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const Location location = slots_.location(call.sequence, rank);
    if (one_address_space_ && location.segment == kPointer) {
      copies.push_back(reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(location.offset)));
    } else if (buffer != nullptr && location.segment == buffer->segment() && location.offset <= buffer->part_bytes() &&
               bytes_of(rank) <= buffer->part_bytes() - location.offset) {
      copies.push_back(buffer->part(rank) + location.offset);
    } else {
      return {};
    }
  }
  return copies;
}

void OperationOrder::run_small(Started& started) {
  std::array<const std::byte*, kMaxRanks> sources;
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const Location location = slots_.location(started.call.sequence, rank);
    sources[static_cast<std::size_t>(rank)] = group_.at(group_.layout().small_box(location.offset, rank));
  }
  reduce(started.elements.type, started.reduction, sources.data(), group_.world_size(), &started.elements.data, 1,
         started.elements.count);
}

void OperationOrder::work_slice(Started& started, int owner) {
  const std::size_t step = kChunkBytes / element_bytes(started.elements.type);
  slots_.work(started.call.sequence, started.chunks_per_slice, owner, [&](int whose, std::uint64_t chunk) {
    const auto [begin, end] = slice(started.elements, whose);
    const std::size_t from = std::min(end, begin + static_cast<std::size_t>(chunk) * step);
    const std::size_t count = std::min(end - from, step);
    std::array<std::byte*, kMaxRanks> copies;
    for (std::size_t rank = 0; rank < started.copies.size(); ++rank) {
      copies[rank] = started.copies[rank] + from * element_bytes(started.elements.type);
    }
    reduce(started.elements.type, started.reduction, copies.data(), group_.world_size(), copies.data(),
           group_.world_size(), count);
  });
}

// Takes what others have not begun: they may be busy elsewhere.
void OperationOrder::help_others(Started& started) {
  const auto end = Clock::now() + kPatience;
  while (Clock::now() < end) {
    if (slots_.all_done(started.call.sequence, started.chunks_per_slice)) return;
    relax_cpu();
  }
  for (int step = 1; step < group_.world_size(); ++step) {
    work_slice(started, (group_.rank() + step) % group_.world_size());
  }
}

// All have entered.
void OperationOrder::check_announcements(const Call& call) {
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
