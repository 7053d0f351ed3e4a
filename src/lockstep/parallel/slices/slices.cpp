#include "lockstep/parallel/slices/slices.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/base/seconds_since.h"

namespace lockstep {
namespace {

// Restores a flag even if the body throws.
class RaisedFlag {
 public:
  explicit RaisedFlag(bool& flag) : flag_(flag) { flag_ = true; }
  ~RaisedFlag() { flag_ = false; }
  RaisedFlag(const RaisedFlag&) = delete;
  RaisedFlag& operator=(const RaisedFlag&) = delete;

 private:
  bool& flag_;
};

}  // namespace

Slices::Slices(std::int64_t slices, Reducer& reducer, Communicator& communicator,
               std::function<std::vector<NamedTensor>()> buffers)
    : plan_(slices, communicator.rank(), communicator.world_size()),
      backward_(reducer.backward()),
      communicator_(communicator),
      sums_(plan_, reducer.backward().buckets(), communicator),
      contributed_(reducer.backward().buckets().num_parameters(), 0) {
  if (buffers) buffers_.emplace(plan_, communicator, std::move(buffers));
  reducer.watch_arrivals([this](std::size_t parameter) { contributed_[parameter] = 1; });
}

void Slices::run(std::uint64_t update, bool are_zero, const std::function<void(std::int64_t)>& body) {
  GradientBuckets& buckets = backward_.buckets();
  std::fill(contributed_.begin(), contributed_.end(), std::uint8_t{0});
  sums_.start_over();
  if (buffers_) buffers_->start_over();
  for (std::int64_t slice = plan_.run().begin; slice < plan_.run().end; ++slice) {
    {
      const at::NoGradGuard no_grad;
      // A gradient begins with zeros in its place, on every rank and for every slice: what adds to it in place, and
      // what computes it in new memory, might round differently.
      for (std::size_t b = 0; b < buckets.size() && !are_zero; ++b) at::Tensor(buckets[b].memory).zero_();
      are_zero = false;
      if (buffers_) buffers_->restore();
      const auto lock = backward_.lock();
      for (std::size_t i = 0; i < buckets.num_parameters(); ++i) buckets.show(i);
    }
    try {
      run_slice(update, slice, body);
    } catch (...) {
      const at::NoGradGuard no_grad;
      if (buffers_) buffers_->restore();  // of the slice that failed: the program may continue with the next update
      throw;
    }
    {
      const at::NoGradGuard no_grad;
      const auto lock = backward_.lock();
      for (std::size_t i = 0; i < buckets.num_parameters(); ++i) buckets.take(i);
    }
    sums_.add_slice();
    if (buffers_) buffers_->add_slice(slice, had_forward_);
  }
  backward_.context().update = update;
  if (buffers_) buffers_->finish(update);
  average();
}

void Slices::run_slice(std::uint64_t update, std::int64_t slice, const std::function<void(std::int64_t)>& body) {
  const RaisedFlag in_slice(is_in_slice_);
  had_forward_ = false;
  const auto scope = surroundings_.enter(update, slice);
  body(slice);
}

void Slices::average() {
  const at::NoGradGuard no_grad;
  const GradientBuckets& buckets = backward_.buckets();
  backward_.begin_sums();
  const auto start = std::chrono::steady_clock::now();
  if (!backward_.context().all_kept) {
    while (exchanges_.size() < buckets.size()) exchanges_.emplace_back(plan_, sums_, exchanges_.size(), communicator_);
    for (TermExchange& exchange : exchanges_) exchange.start();
    std::vector<std::shared_ptr<Work>> gathers;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const at::Tensor& memory = buckets[b].memory;
      const std::int64_t part = memory.numel() / communicator_.world_size();
      const at::Tensor own = memory.narrow(0, part * communicator_.rank(), part);
      exchanges_[b].finish(own, static_cast<double>(plan_.tree().slices()));
      if (communicator_.world_size() > 1) gathers.push_back(communicator_.all_gather_async(memory, own));
    }
    for (const auto& work : gathers) work->wait();
  }
  backward_.end_sums(contributed_, seconds_since(start));
}

}  // namespace lockstep
