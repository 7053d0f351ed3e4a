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
/// Gloo lets any thread post sends and receives, under the connection's lock. But while one thread does, the device's
/// thread finds the lock taken, skips the event and polls again, which returns the event again: it spins. If the system
/// scheduled it on the processor of the thread that holds the lock, it spins until its time slice ends, for
/// milliseconds. Commands that run on the device's thread itself avoid this.
///
/// Includes Gloo, so only gloo_mesh.cpp and loop_commands.cpp may include this header. Thread-safe.
class LoopCommands : private gloo::transport::tcp::Handler {
 public:
  /// @param tick  called every second, on the device's thread
  LoopCommands(std::shared_ptr<gloo::transport::tcp::Device> device, std::function<void()> tick);
  ~LoopCommands() override;
  LoopCommands(const LoopCommands&) = delete;
  LoopCommands& operator=(const LoopCommands&) = delete;

  /// `run` must not throw. Commands run in the order of their posting.
  void post(const void* owner, std::function<void()> run);
  /// Drops the commands that `owner` has posted; returns when none of them runs any more. Do not call it on the
  /// device's thread.
  void forget(const void* owner);
  /// Drops the commands of all owners, and all later ones. Call it before connections are closed from another thread:
  /// closing waits for the device's thread while it holds a connection's lock, for which a command might be waiting.
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
  std::mutex mutex_;  // guards the members below
  std::condition_variable ended_;
  std::deque<Command> waiting_;
  const void* running_ = nullptr;  // the owner of the running command
  bool stopped_ = false;
};

}  // namespace lockstep
