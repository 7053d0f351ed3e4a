#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "lockstep/detail/base/deadline_extension.h"

namespace lockstep {

/// A point in time by which a wait must end. It is passed down by value, so that a chain of waits shares one limit. An
/// extension can move the limit to a later time while the wait lasts, for all copies alike.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Ends `timeout` from now, or at the time of `extension` if that is later. A negative or huge timeout never ends.
  static Deadline after(std::chrono::milliseconds timeout,
                        std::shared_ptr<const DeadlineExtension> extension = nullptr) {
    constexpr auto kLongest = std::chrono::hours(24 * 365);
    if (timeout.count() < 0 || timeout > kLongest) return never();
    return Deadline(Clock::now() + timeout, std::move(extension));
  }
  static Deadline never() { return Deadline(Clock::time_point::max(), nullptr); }

  /// This deadline, moved `grace` later.
  Deadline later_by(std::chrono::milliseconds grace) const {
    Deadline later = *this;
    later.grace_ += grace;
    return later;
  }

  bool passed() const { return !is_never() && Clock::now() >= at(); }
  bool is_never() const { return at_ == Clock::time_point::max(); }
  Clock::time_point at() const {
    if (is_never()) return at_;
    return (extension_ ? std::max(at_, extension_->at()) : at_) + grace_;
  }

  /// Time left, at least zero. A deadline that never ends returns a day, because every caller waits in a loop.
  std::chrono::milliseconds remaining() const {
    if (is_never()) return std::chrono::hours(24);
    return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(at() - Clock::now()));
  }
  /// `remaining` as the timeout of poll(2).
  int poll_timeout_ms() const { return static_cast<int>(remaining().count()); }

 private:
  Deadline(Clock::time_point at, std::shared_ptr<const DeadlineExtension> extension)
      : at_(at), extension_(std::move(extension)) {}
  Clock::time_point at_;
  std::chrono::milliseconds grace_{0};
  std::shared_ptr<const DeadlineExtension> extension_;  // null: the deadline cannot be extended
};

}  // namespace lockstep
