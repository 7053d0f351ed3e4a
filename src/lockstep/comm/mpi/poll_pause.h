#pragma once

#include <time.h>

#include <thread>

namespace lockstep {

/// The pauses of a wait that polls. First none, because most waits are short, with the processor offered to other
/// threads now and then; then short sleeps.
class PollPause {
 public:
  void take() {
    if (polls_ < kPollsBeforeSleep) ++polls_;
    if (sleeps()) {
      const timespec pause{0, kSleep_ns};
      ::nanosleep(&pause, nullptr);
    } else if (polls_ % kPollsPerYield == 0) {
      std::this_thread::yield();
    }
  }
  bool sleeps() const { return polls_ >= kPollsBeforeSleep; }

 private:
  static constexpr int kPollsPerYield = 32;
  static constexpr int kPollsBeforeSleep = 4096;
  static constexpr long kSleep_ns = 50'000;

  int polls_ = 0;
};

}  // namespace lockstep
