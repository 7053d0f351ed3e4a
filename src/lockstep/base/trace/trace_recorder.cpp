#include "lockstep/base/trace/trace_recorder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep::trace_recorder {

std::atomic<State> detail::state{State::Off};

namespace {

// The events of one thread, which alone writes them.
struct EventMemory {
  std::vector<TraceEvent> events{kEventsOfThread};
  std::atomic<std::size_t> size{0};
  std::atomic<std::int64_t> dropped{0};
  std::uint8_t thread = 0;
};

// Lives as long as the process, because a thread may be in the middle of an event when a trace ends.
struct EventRecorder {
  std::mutex mutex;  // guards the list, the window and what to call
  std::vector<std::unique_ptr<EventMemory>> memories;
  TraceWindow window;
  std::function<void()> on_end;
  std::atomic<std::int64_t> step{0};
  std::atomic<bool> step_ended{true};
};

EventRecorder& recorder() {
  static EventRecorder* const instance = new EventRecorder;
  return *instance;
}

EventMemory& memory_of_thread() {
  thread_local EventMemory* memory = nullptr;
  if (memory == nullptr) {
    EventRecorder& all = recorder();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.memories.push_back(std::make_unique<EventMemory>());
    memory = all.memories.back().get();
    memory->thread = static_cast<std::uint8_t>(
        std::min<std::size_t>(all.memories.size() - 1, std::numeric_limits<std::uint8_t>::max()));
  }
  return *memory;
}

// The step after the present one begins.
void next_step() {
  EventRecorder& all = recorder();
  std::function<void()> on_end;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!is_on()) return;
    const std::int64_t step = all.step.fetch_add(1) + 1;
    if (step > all.window.last) {
      detail::state = State::Off;
      on_end = std::exchange(all.on_end, nullptr);
    } else if (step >= all.window.first) {
      detail::state = State::Recording;
    }
  }
  if (on_end) on_end();
}

}  // namespace

void start(const TraceWindow& window, std::function<void()> on_end) {
  memory_of_thread();  // reserved before the first step
  EventRecorder& all = recorder();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& memory : all.memories) {
    memory->size = 0;
    memory->dropped = 0;
  }
  all.window = window;
  all.on_end = std::move(on_end);
  all.step = 0;
  all.step_ended = true;
  detail::state = State::Counting;
}

TraceRecord stop() {
  EventRecorder& all = recorder();
  const std::lock_guard<std::mutex> lock(all.mutex);
  detail::state = State::Off;
  all.on_end = nullptr;
  TraceRecord record;
  record.steps = all.step;
  for (const auto& memory : all.memories) {
    const auto size = static_cast<std::ptrdiff_t>(memory->size.load(std::memory_order_acquire));
    record.events.insert(record.events.end(), memory->events.begin(), memory->events.begin() + size);
    record.dropped += memory->dropped;
  }
  return record;
}

void add(TraceEvent event) {
  if (!is_recording()) return;
  EventMemory& memory = memory_of_thread();
  const std::size_t size = memory.size.load(std::memory_order_relaxed);
  if (size == kEventsOfThread) {
    memory.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  event.step = static_cast<std::int32_t>(recorder().step.load(std::memory_order_relaxed));
  event.thread = memory.thread;
  memory.events[size] = event;
  memory.size.store(size + 1, std::memory_order_release);
}

void touch_step() {
  if (is_on() && recorder().step_ended.load(std::memory_order_relaxed) && recorder().step_ended.exchange(false)) {
    next_step();
  }
}

void end_step() {
  if (is_on()) recorder().step_ended = true;
}

}  // namespace lockstep::trace_recorder
