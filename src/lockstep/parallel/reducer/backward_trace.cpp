#include "lockstep/parallel/reducer/backward_trace.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <utility>

#include "lockstep/comm/timed_work.h"

namespace lockstep {

void BackwardTrace::begin_forward() {
  if (!trace_recorder::is_on()) return;
  trace_recorder::touch_step();
  backward_ns_ = 0;  // an exception has cut it off
  forward_ns_ = trace_now_ns();
}

void BackwardTrace::end_forward(const at::Tensor& output, bool ends_step) {
  if (!trace_recorder::is_on()) return;
  if (const std::int64_t begin_ns = std::exchange(forward_ns_, 0); begin_ns != 0) {
    TraceEvent event;
    event.kind = TraceKind::Forward;
    event.begin_ns = begin_ns;
    event.end_ns = trace_now_ns();
    trace_recorder::add(event);
  }
  if (!output.defined() || !output.requires_grad()) return;
  output.register_hook([self = shared_from_this(), ends_step](const at::Tensor&) { self->begin_backward(ends_step); });
}

void BackwardTrace::begin_backward(bool ends_step) {
  if (backward_ns_ != 0 || !trace_recorder::is_on()) return;
  backward_ns_ = trace_now_ns();
  if (ends_step) return;
  torch::autograd::Engine::get_default_engine().queue_callback([self = shared_from_this()] { self->add_backward(); });
}

void BackwardTrace::add_backward() {
  TraceEvent event;
  event.kind = TraceKind::Backward;
  event.begin_ns = std::exchange(backward_ns_, 0);
  event.end_ns = trace_now_ns();
  if (event.begin_ns != 0) trace_recorder::add(event);
}

void BackwardTrace::end_backward() {
  if (!trace_recorder::is_on()) return;
  add_backward();
  trace_recorder::end_step();
}

void BackwardTrace::wait(std::size_t bucket, Work& work) {
  if (!trace_recorder::is_recording()) return work.wait();
  TraceEvent event;
  event.kind = TraceKind::Wait;
  event.bucket = static_cast<std::int32_t>(bucket);
  event.begin_ns = trace_now_ns();
  work.wait();
  event.end_ns = trace_now_ns();
  trace_recorder::add(event);
  auto* const timed = dynamic_cast<TimedWork*>(&work);
  const std::int64_t ended_ns = timed == nullptr ? 0 : timed->ended_ns();
  buckets_[bucket].done_ns = ended_ns == 0 ? event.end_ns : ended_ns;
}

void BackwardTrace::end_bucket(std::size_t bucket, const at::Tensor& buffer) {
  const BucketTimes times = std::exchange(buckets_[bucket], {});
  if (!trace_recorder::is_recording() || times.launch_ns == 0) return;
  TraceEvent event;
  event.kind = TraceKind::Bucket;
  event.bucket = static_cast<std::int32_t>(bucket);
  event.begin_ns = times.ready_ns == 0 ? times.launch_ns : std::min(times.ready_ns, times.launch_ns);
  event.launch_ns = times.launch_ns;
  event.end_ns = std::max(times.launch_ns, times.done_ns == 0 ? trace_now_ns() : times.done_ns);
  event.bytes = static_cast<std::int64_t>(buffer.nbytes());
  event.dtype = static_cast<std::int8_t>(buffer.scalar_type());
  trace_recorder::add(event);
}

}  // namespace lockstep
