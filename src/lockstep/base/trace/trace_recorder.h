#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/base/trace/trace_event.h"
#include "lockstep/base/trace/trace_window.h"

namespace lockstep {

/// What a process has recorded.
struct TraceRecord {
  std::vector<TraceEvent> events;
  std::int64_t dropped = 0;  ///< events that found their thread's memory full
  std::int64_t steps = 0;    ///< steps that were begun, also those before the window
};

/// Records this process's spans while a trace wants them. A thread writes to memory of its own, which is reserved
/// before its first event: no lock and no allocation after that. Without a trace, a caller reads one atomic number.
namespace trace_recorder {

enum class State : int {
  Off,
  Counting,  ///< steps before the window
  Recording,
};
namespace detail {
extern std::atomic<State> state;
}

inline bool is_on() { return detail::state.load(std::memory_order_relaxed) != State::Off; }
inline bool is_recording() { return detail::state.load(std::memory_order_relaxed) == State::Recording; }

/// Events that each thread has memory for.
constexpr std::size_t kEventsOfThread = std::size_t{1} << 15;

/// Begins to count steps, and forgets earlier events. The caller is the only one that starts and stops.
/// @param on_end  called once, by the training thread, when the step after the window begins; must not block
void start(const TraceWindow& window, std::function<void()> on_end);
/// Ends the recording. @return  the events, in no order
TraceRecord stop();

/// Records `event`, with the present step and thread, if the present step is in the window.
void add(TraceEvent event);
/// A span of the present step begins: the first one after `end_step` is in the next step.
void touch_step();
/// The gradients of the present step are complete. What follows until the next batch or forward belongs to it.
void end_step();

/// Records the time of its scope. Does nothing if no trace is on.
class Scope {
 public:
  explicit Scope(TraceKind kind) { begin(kind); }
  Scope(TraceKind kind, std::size_t bucket, std::size_t bytes) {
    event_.bucket = static_cast<std::int32_t>(bucket);
    event_.bytes = static_cast<std::int64_t>(bytes);
    begin(kind);
  }
  ~Scope() {
    if (event_.begin_ns == 0) return;
    event_.end_ns = trace_now_ns();
    add(event_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void begin(TraceKind kind) {
    if (!is_on()) return;
    if (kind == TraceKind::Data || kind == TraceKind::Forward) touch_step();
    if (!is_recording()) return;
    event_.kind = kind;
    event_.begin_ns = trace_now_ns();
  }

  TraceEvent event_;
};

}  // namespace trace_recorder

}  // namespace lockstep
