#include "lockstep/comm/shm/operation_order.h"

#include <system_error>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::shm {

/// Lets this thread use `all_reduce_` without the lock. It may then wait for other ranks, without keeping other threads
/// from seeing that an earlier operation is over. Meanwhile there is nothing pending that could be advanced.
class OperationOrder::Alone {
 public:
  Alone(OperationOrder& order, Lock& lock) : order_(order), lock_(lock) {
    order_.occupied_ = true;
    lock_.unlock();
  }
  ~Alone() {
    lock_.lock();
    order_.occupied_ = false;
    order_.vacated_.notify_all();
    if (order_.pending_.has_waiting()) order_.helper_needed_.notify_one();
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  OperationOrder& order_;
  Lock& lock_;
};

OperationOrder::OperationOrder(Group& group, Allocations& allocations, bool one_address_space,
                               std::function<Deadline()> limit)
    : group_(group),
      allocations_(allocations),
      one_address_space_(one_address_space),
      limit_(std::move(limit)),
      all_reduce_(group, allocations, one_address_space),
      pending_(all_reduce_) {
  idle_work_.emplace([this] { progress(); });
}

void OperationOrder::all_reduce(Call call, const Elements& elements, Reduction reduction) {
  Lock lock(mutex_);
  vacated_.wait(lock, [this] { return !occupied_; });
  if (pending_.empty()) {
    const Alone alone(*this, lock);
    AllReduce::prepare(immediate_, std::move(call), elements, reduction);
    all_reduce_.enter(immediate_);
    all_reduce_.finish(immediate_);
    immediate_.end(nullptr);
    return;
  }
  const auto it = std::make_shared<InFlightAllReduce>();
  AllReduce::prepare(*it, std::move(call), elements, reduction);
  pending_.add(it);
  drive(lock, it.get());
  if (it->failure) std::rethrow_exception(it->failure);
}

std::shared_ptr<InFlightAllReduce> OperationOrder::start(Call call, const Elements& elements, Reduction reduction,
                                                         std::shared_ptr<const void> keep) {
  if (!all_reduce_.is_tiny(elements) && !one_address_space_ && !allocations_.find(elements.data, elements.bytes())) {
    return nullptr;
  }
  auto started = std::make_shared<InFlightAllReduce>();
  AllReduce::prepare(*started, std::move(call), elements, reduction);
  started->keep = std::move(keep);
  const Lock lock(mutex_);
  try {
    group_.throw_if_broken();
    pending_.add(started);
    if (!occupied_) pending_.move_on();
    if (pending_.has_waiting()) call_helper();
  } catch (...) {
    fail_all(std::current_exception());
    throw;
  }
  note_pending();
  return started;
}

bool OperationOrder::poll(InFlightAllReduce& started) {
  if (started.over.load(std::memory_order_acquire)) return true;
  if (!try_move_on(Look::Waiting)) return false;
  return started.over.load(std::memory_order_acquire);
}

void OperationOrder::wait(InFlightAllReduce& started) {
  if (!started.over.load(std::memory_order_acquire)) {
    Lock lock(mutex_);
    try {
      drive(lock, &started);
    } catch (...) {  // stored in `failure`
    }
  }
  if (started.failure) std::rethrow_exception(started.failure);
}

void OperationOrder::progress() noexcept {
  if (has_pending_.load(std::memory_order_relaxed)) try_move_on(Look::Passing);
}

void OperationOrder::finish_pending() {
  Lock lock(mutex_);
  if (!pending_.empty()) drive(lock, nullptr);
}

void OperationOrder::run(const Call& call, std::byte* data, const std::function<std::size_t(int rank)>& bytes_of,
                         const Body& body) {
  Lock lock(mutex_);
  vacated_.wait(lock, [this] { return !occupied_; });
  Call now = call;
  if (!pending_.empty()) {
    drive(lock, nullptr);
    now.deadline = limit_();  // the operations before it had their own
  }
  const Alone alone(*this, lock);
  group_.throw_if_broken();
  const auto buffer = allocations_.find(data, bytes_of(group_.rank()));
  all_reduce_.meet(now, data, buffer.get());
  std::vector<std::byte*> copies;
  all_reduce_.find_copies(copies, now, bytes_of, buffer.get());
  body(copies, [&] { all_reduce_.pass_round(now); });
  all_reduce_.retire(now);
}

void OperationOrder::close() noexcept {
  idle_work_.reset();
  {
    const Lock lock(mutex_);
    closing_ = true;
    if (!pending_.empty()) {
      group_.abort(kDestroyedEarly);
    }
  }
  helper_needed_.notify_all();
  if (helper_.joinable()) helper_.join();
  const Lock lock(mutex_);
  note_pending();
  if (pending_.empty()) return;
  fail_all(std::make_exception_ptr(Error("the communicator was destroyed before this operation was over", "",
                                         "wait for every Work before you destroy the communicator")));
}

// Does everything that can be done without waiting. Stores errors in each operation's `failure`. False if another
// thread is doing so.
bool OperationOrder::try_move_on(Look look) noexcept {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || occupied_) return false;
  try {
    pending_.move_on();
    if (!pending_.empty()) look_at_peers(look);
  } catch (...) {
    fail_all(std::current_exception());
  }
  note_pending();
  return true;
}

void OperationOrder::look_at_peers(Look look) {
  const std::shared_ptr<InFlightAllReduce> first = pending_.first();
  if (look == Look::Waiting) first->looks.count(limit_);
  all_reduce_.look_at_peers(*first, look == Look::Waiting ? &first->looks : nullptr);
}

// Returns when `last` is over, or all operations if it is null. Holds the lock except while it waits for other ranks.
void OperationOrder::drive(Lock& lock, const InFlightAllReduce* last) {
  ++drivers_;
  try {
    const auto is_over = [&] { return pending_.empty() || (last != nullptr && last->over.load()); };
    for (;;) {
      vacated_.wait(lock, [&] { return !occupied_ || is_over(); });
      if (is_over()) break;
      pending_.move_on();
      if (is_over()) break;
      if (!all_reduce_.help(*pending_.first())) await_first(lock, /*in_time=*/true);
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    --drivers_;
    fail_all(std::current_exception());
    throw;
  }
  --drivers_;
  note_pending();
  if (drivers_ == 0 && pending_.has_waiting()) helper_needed_.notify_one();
}

// Waits, without the lock, for what the oldest operation needs from other ranks.
void OperationOrder::await_first(Lock& lock, bool in_time) {
  const std::shared_ptr<InFlightAllReduce> first = pending_.first();
  if (in_time && !std::exchange(first->awaited, true)) first->call.deadline = limit_();
  Call call = first->call;  // another thread may set the operation's deadline meanwhile
  if (!in_time) call.deadline = Deadline::never();
  const AllReduce::Hurdle hurdle = AllReduce::hurdle(*first, call);
  lock.unlock();
  all_reduce_.await(hurdle, first->over);
  lock.lock();
}

// The group must know every error, or the other ranks would keep waiting. Afterwards the operations' memory belongs to
// their callers again, so no other rank may write to it.
void OperationOrder::fail_all(const std::exception_ptr& failure) {
  if (!group_.broken()) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      group_.abort(error);
    } catch (...) {
      group_.abort("an exception of unknown type");
    }
  }
  group_.await_idle_writers();
  pending_.fail(failure);
  note_pending();
}

// For those that ask without the lock.
void OperationOrder::note_pending() noexcept {
  const bool pending = !pending_.empty();
  if (has_pending_.load(std::memory_order_relaxed) == pending) return;
  has_pending_.store(pending, std::memory_order_relaxed);
  pending ? IdleWork::begin_pending() : IdleWork::end_pending();
}

void OperationOrder::call_helper() {
  if (!helper_.joinable()) {
    try {
      helper_ = std::thread([this] { help(); });
    } catch (const std::system_error& error) {
      throw Error(std::string("no thread for operations that wait for a slot: ") + error.what(), "",
                  "raise the limit of threads, or wait for operations before more are started");
    }
  }
  if (drivers_ == 0) helper_needed_.notify_one();
}

// Runs in the helper's thread.
void OperationOrder::help() {
  Lock lock(mutex_);
  for (;;) {
    helper_needed_.wait(lock, [this] { return closing_ || (drivers_ == 0 && !occupied_ && pending_.has_waiting()); });
    if (closing_) return;
    try {
      pending_.move_on();
      if (pending_.has_waiting()) await_first(lock, /*in_time=*/false);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      fail_all(std::current_exception());
    }
    note_pending();
  }
}

}  // namespace lockstep::shm
