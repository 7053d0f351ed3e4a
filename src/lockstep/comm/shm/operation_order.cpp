#include "lockstep/comm/shm/operation_order.h"

#include <chrono>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::shm {
namespace {

constexpr std::chrono::microseconds kLockedOut(50);  // until the next look

}  // namespace

OperationOrder::OperationOrder(Group& group, Allocations& allocations, bool one_address_space)
    : group_(group),
      allocations_(allocations),
      one_address_space_(one_address_space),
      ways_(group, allocations, one_address_space) {}

void OperationOrder::all_reduce(const Call& call, const Elements& elements, Reduction reduction) {
  const Lock lock(mutex_);
  Started& it = immediate_;
  it.call = call;
  it.elements = elements;
  it.reduction = reduction;
  it.way = Started::Way::Slot;
  it.stage = Started::Stage::Entered;
  launch(it);
  finish_until(nullptr);
  while (!ways_.step(it, true)) {
  }
  it.buffer.reset();
}

std::shared_ptr<Started> OperationOrder::start(const Call& call, const Elements& elements, Reduction reduction,
                                               std::shared_ptr<const void> keep) {
  if (!ways_.is_tiny(elements) && !one_address_space_ && !allocations_.find(elements.data, elements.bytes())) {
    return nullptr;
  }
  auto started = std::make_shared<Started>();
  started->call = call;
  started->elements = elements;
  started->reduction = reduction;
  started->keep = std::move(keep);
  const Lock lock(mutex_);
  move_on();
  launch(*started);
  pending_.push_back(started);
  has_pending_.store(true, std::memory_order_relaxed);
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
    const Lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      std::this_thread::sleep_for(kLockedOut);
      continue;
    }
    try {
      finish_until(&started);
    } catch (...) {  // kept in `failure`
    }
  }
  if (started.failure) std::rethrow_exception(started.failure);
}

void OperationOrder::progress() noexcept {
  if (!has_pending_.load(std::memory_order_relaxed)) return;
  const Lock lock(mutex_, std::try_to_lock);  // who holds it moves them on
  if (lock.owns_lock()) move_on();
}

void OperationOrder::run(const Call& call, std::byte* data, const std::function<std::size_t(int rank)>& bytes_of,
                         const Body& body) {
  const Lock lock(mutex_);
  finish_until(nullptr);
  group_.throw_if_broken();
  const auto buffer = allocations_.find(data, bytes_of(group_.rank()));
  ways_.enter(call, data, buffer.get());
  std::vector<std::byte*> copies;
  ways_.find_copies(copies, call, bytes_of, buffer.get());
  body(copies, [&] { ways_.pass_round(call); });
  ways_.retire(call);
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

void OperationOrder::launch(Started& started) {
  try {
    while (!ways_.may_launch(started.elements)) finish_first(true);
    ways_.launch(started);
  } catch (...) {
    fail_all(std::current_exception());
    throw;
  }
}

// Everything that can be done without waiting.
void OperationOrder::move_on() {
  try {
    while (!pending_.empty() && finish_first(false)) {
    }
    // The first one may wait for chunks that others took; this rank's share of those behind it need not.
    for (const auto& started : pending_) ways_.advance(*started);
  } catch (...) {
    fail_all(std::current_exception());
  }
}

// True where the oldest operation is over and taken off.
bool OperationOrder::finish_first(bool may_wait) {
  const std::shared_ptr<Started> first = pending_.front();
  if (!ways_.step(*first, may_wait)) return false;
  pending_.pop_front();
  has_pending_.store(!pending_.empty(), std::memory_order_relaxed);
  first->keep.reset();
  first->buffer.reset();
  first->over.store(true, std::memory_order_release);
  return true;
}

// All, where `last` is null.
void OperationOrder::finish_until(const Started* last) {
  try {
    while (!pending_.empty() && (last == nullptr || !last->over.load(std::memory_order_relaxed))) finish_first(true);
  } catch (...) {
    fail_all(std::current_exception());
    throw;
  }
}

void OperationOrder::fail_all(const std::exception_ptr& failure) {
  for (const auto& started : pending_) {
    started->failure = failure;
    started->over.store(true, std::memory_order_release);
  }
  pending_.clear();
  has_pending_.store(false, std::memory_order_relaxed);
}

}  // namespace lockstep::shm
