#include "lockstep/net/slow_joining.h"

#include <chrono>

#include "lockstep/base/log.h"
#include "lockstep/base/slow_notice.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/timeout_texts.h"

namespace lockstep {

SlowJoining::SlowJoining(const std::string& where, const std::string& address, int world_size, Deadline deadline) {
  const SignalsBlocked blocked;  // for the thread, which inherits it
  thread_ = start_thread("says that joining lasts", [this, where, address, world_size, deadline] {
    const auto since = Deadline::Clock::now();
    SlowNotice notice(deadline);
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_until(lock, since + notice.next(), [this] { return ended_; })) {
      const auto waited = Deadline::Clock::now() - since;
      if (!notice.due(waited) || deadline.passed()) continue;
      log_warning("{} is still waiting for all {} ranks to join at {}, {:.0f} s; it gives up in {:.0f} s; {}", where,
                  world_size, address, std::chrono::duration<double>(waited).count(),
                  std::chrono::duration<double>(deadline.remaining()).count(), kRaiseJoinTimeout);
    }
  });
}

SlowJoining::~SlowJoining() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace lockstep
