#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <type_traits>

namespace lockstep {

/// What a span of a trace shows.
enum class TraceKind : std::uint8_t {
  Data,          ///< the training thread takes the next batch
  Forward,       ///< the module's forward
  Backward,      ///< from the module's output to the last gradient's average
  Update,        ///< the optimizer's step
  Bucket,        ///< a bucket of gradients, from ready (begin) over launch to done (end)
  BucketUpdate,  ///< a fused optimizer reduces, updates and publishes a bucket
  Wait,          ///< the backward thread waits for a bucket
  Collective,    ///< a blocking collective: all ranks of its group meet in it
  Replica,       ///< a part of DataParallel's step on one of its devices
};
constexpr int kTraceKinds = 9;

/// The parts of DataParallel's step.
constexpr std::array<const char*, 6> kReplicaParts{"scatter", "broadcast", "forward", "gather", "backward", "reduce"};

/// One span of a rank, in nanoseconds of the rank's steady clock. Plain memory, which ranks send to each other.
struct TraceEvent {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t launch_ns = 0;  ///< of a bucket
  std::int64_t bytes = 0;      ///< that the span moves; 0 if it moves none
  std::uint64_t sequence = 0;  ///< of a collective: its number in its group
  std::uint32_t group = 0;     ///< of a collective: a hash of its group's name
  std::int32_t step = 0;       ///< from 1
  std::int32_t bucket = -1;    ///< in launch order; -1: not of a bucket. A Replica has its device here
  TraceKind kind = TraceKind::Data;
  std::uint8_t thread = 0;     ///< of the rank, in the order of their first events
  std::int8_t dtype = -1;      ///< a c10::ScalarType; -1: of no tensor
  std::uint8_t operation = 0;  ///< of a collective: an OperationKind; a Replica has one of kReplicaParts
};
static_assert(std::is_trivially_copyable_v<TraceEvent> && sizeof(TraceEvent) == 56, "sent as bytes, without padding");

/// Nanoseconds of the steady clock, which is CLOCK_MONOTONIC: one clock for all processes of a host.
inline std::int64_t trace_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace lockstep
