#pragma once

#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/loop.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Runs functions on the thread that serves a device's connections.
///
/// Gloo lets any thread post sends and receives, under the connection's lock. But while one does, the device's thread
/// finds the lock taken, skips the event and asks for events again, which are the same: it spins. Where the system gave
/// it the very processor of the thread that holds the lock, it spins until its time slice ends, for milliseconds. On
/// its own thread there is nothing to wait for.
///
/// Sees Gloo, so only gloo_mesh.cpp may include it. Thread-safe.
class LoopCommands : private gloo::transport::tcp::Handler {
 public:
  /// @param tick  called every second, on that thread
  LoopCommands(std::shared_ptr<gloo::transport::tcp::Device> device, std::function<void()> tick);
  ~LoopCommands() override;
  LoopCommands(const LoopCommands&) = delete;
  LoopCommands& operator=(const LoopCommands&) = delete;

  /// `run` must not throw. In order.
  void post(const void* owner, std::function<void()> run);
  /// Forgets what `owner` has posted; returns when none of it runs any more. Not on the device's thread.
  void forget(const void* owner);
  /// The same for everybody and for ever. To be called before connections are closed from another thread, which waits
  /// for the device's thread while it holds a connection's lock that a command might be waiting for.
  void stop();

 private:
  struct Command {
    const void* owner;
    std::function<void()> run;
  };
  void handleEvents(int events) override;

  std::shared_ptr<gloo::transport::tcp::Device> device_;
  const std::function<void()> tick_;
  UniqueFd event_;
  UniqueFd timer_;
  std::mutex mutex_;  // guards all below
  std::condition_variable ended_;
  std::deque<Command> waiting_;
  const void* running_ = nullptr;  // the owner
  bool stopped_ = false;
};

}  // namespace lockstep
