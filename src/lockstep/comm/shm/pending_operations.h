#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <utility>

namespace lockstep::shm {

/// The operations that a rank has started and not finished, in order, any number of them. Those in front have entered,
/// which uses shared memory: a slot or a box each. Those behind them wait here, in this rank's memory, until they may
/// enter. So a rank that is far ahead of its peers only gets a longer queue.
///
/// Nothing here waits for other ranks. A caller that wants to wait calls `move_on`, waits for what the first operation
/// needs, and calls it again. A rank must not wait in any other way before one of its operations enters: it may itself
/// occupy the place for which it would wait.
///
/// `Steps` defines how operations enter and advance; `Item` is one of them, and `end()` ends it. Both are the engine's,
/// or the model checker's. No locks.
template <class Steps, class Item>
class PendingOperations {
 public:
  explicit PendingOperations(Steps& steps) : steps_(steps) {}

  bool empty() const { return items_.empty(); }
  /// True if some have not entered yet: the other ranks may be waiting for them, and only this rank can enter them.
  bool has_waiting() const { return entered_ < items_.size(); }
  const std::shared_ptr<Item>& first() const { return items_.front(); }
  void add(std::shared_ptr<Item> item) { items_.push_back(std::move(item)); }

  /// Does everything that can be done without waiting. After an exception, call `fail`.
  void move_on() {
    do {
      enter_what_may();
    } while (take_off_first());
    // The first one may wait for chunks that others took; this rank's share of the later ones need not wait.
    for (std::size_t i = 1; i < entered_; ++i) steps_.advance(*items_[i]);
  }

  /// Ends all of them with `failure`.
  void fail(const std::exception_ptr& failure) {
    entered_ = 0;
    for (; !items_.empty(); items_.pop_front()) items_.front()->end(failure);
  }

 private:
  void enter_what_may() {
    while (entered_ < items_.size() && steps_.may_enter(*items_[entered_])) {
      steps_.enter(*items_[entered_]);
      ++entered_;
    }
  }

  // True if the oldest operation was over and has been removed.
  bool take_off_first() {
    if (entered_ == 0 || !steps_.step(*items_.front())) return false;
    const std::shared_ptr<Item> first = std::move(items_.front());
    items_.pop_front();
    --entered_;
    first->end(nullptr);
    return true;
  }

  Steps& steps_;
  std::deque<std::shared_ptr<Item>> items_;
  std::size_t entered_ = 0;  // number of entered ones, from the front
};

}  // namespace lockstep::shm
