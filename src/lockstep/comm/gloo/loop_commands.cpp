#include "lockstep/comm/gloo/loop_commands.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace lockstep {

LoopCommands::LoopCommands(std::shared_ptr<gloo::transport::tcp::Device> device, std::function<void()> tick)
    : device_(std::move(device)),
      tick_(std::move(tick)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  const itimerspec every_second{{1, 0}, {1, 0}};
  if (!event_ || !timer_ || ::timerfd_settime(timer_.get(), 0, &every_second, nullptr) != 0) {
    throw std::runtime_error("cannot create an event or a timer: " + std::generic_category().message(errno));
  }
  device_->registerDescriptor(event_.get(), EPOLLIN, this);
  device_->registerDescriptor(timer_.get(), EPOLLIN, this);
}

LoopCommands::~LoopCommands() {
  device_->unregisterDescriptor(timer_.get(), this);
  device_->unregisterDescriptor(event_.get(), this);
}

void LoopCommands::post(const void* owner, std::function<void()> run) {
  bool wake = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
    wake = waiting_.empty();
    waiting_.push_back({owner, std::move(run)});
  }
  if (!wake) return;
  const std::uint64_t one = 1;
  // Cannot fail: the counter is far from full.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof(one));
}

void LoopCommands::forget(const void* owner) {
  std::unique_lock<std::mutex> lock(mutex_);
  waiting_.erase(
      std::remove_if(waiting_.begin(), waiting_.end(), [&](const Command& command) { return command.owner == owner; }),
      waiting_.end());
  ended_.wait(lock, [&] { return running_ != owner; });
}

void LoopCommands::stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  stopped_ = true;
  waiting_.clear();
  ended_.wait(lock, [&] { return running_ == nullptr; });
}

void LoopCommands::handleEvents(int) {
  std::uint64_t count = 0;
  if (::read(timer_.get(), &count, sizeof(count)) > 0) tick_();
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof(count));
  std::unique_lock<std::mutex> lock(mutex_);
  while (!waiting_.empty()) {
    const Command command = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = command.owner;
    lock.unlock();
    command.run();
    lock.lock();
    running_ = nullptr;
    ended_.notify_all();
  }
}

}  // namespace lockstep
