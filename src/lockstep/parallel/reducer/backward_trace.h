#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/detail/comm/work.h"

namespace lockstep {

/// Records forward, backward and the buckets' ways for a trace. Every call does nothing if no trace is on.
class BackwardTrace : public std::enable_shared_from_this<BackwardTrace> {
 public:
  explicit BackwardTrace(std::size_t buckets) : buckets_(buckets) {}

  void begin_forward();
  /// @param ends_step  whether the backward from `output` is synchronised; if not, the trace finds its end by itself
  void end_forward(const at::Tensor& output, bool ends_step);
  /// A synchronised backward has ended, and the step with it.
  void end_backward();

  /// All gradients of the bucket are there.
  void ready(std::size_t bucket) {
    if (trace_recorder::is_recording()) buckets_[bucket].ready_ns = trace_now_ns();
  }
  void launch(std::size_t bucket) {
    if (trace_recorder::is_recording()) buckets_[bucket].launch_ns = trace_now_ns();
  }
  /// Waits for `work`, which carries the bucket.
  void wait(std::size_t bucket, Work& work);
  /// @param buffer  what was carried
  void end_bucket(std::size_t bucket, const at::Tensor& buffer);

 private:
  struct BucketTimes {
    std::int64_t ready_ns = 0, launch_ns = 0, done_ns = 0;
  };

  void begin_backward(bool ends_step);
  void add_backward();

  std::vector<BucketTimes> buckets_;
  std::int64_t forward_ns_ = 0;   // its beginning; 0: none runs
  std::int64_t backward_ns_ = 0;  // likewise
};

}  // namespace lockstep
