#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep::simulation {

/// A call with a stack of its own on the present thread, so that code which blocks can be one of many simulated
/// processes: a switch takes less than a microsecond, and the order of all of them is the simulation's.
class Fiber {
 public:
  /// @param body  does not throw
  explicit Fiber(std::function<void()> body);
  /// The body has ended, or has not begun.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it pauses or ends. Another fiber may call it.
  void resume();
  /// From within a body: back to `resume`.
  static void pause();
  bool has_ended() const { return has_ended_; }

 private:
  // What the C++ runtime knows of the exceptions that a thread handles: each fiber may be in a handler.
  struct Exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static void exchange_with_thread(Exceptions& kept);
  static void enter();

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t context_{};
  ucontext_t caller_{};
  Fiber* caller_fiber_ = nullptr;
  Exceptions exceptions_;
  bool has_ended_ = false;
};

}  // namespace lockstep::simulation
