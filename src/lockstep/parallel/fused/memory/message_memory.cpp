#include "lockstep/parallel/fused/memory/message_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/symmetric_memory.h"
#include "lockstep/parallel/fused/memory/owned_sum.h"

namespace lockstep {
namespace {

/// Every rank gets the reduced gradients of its share, and sends its weights to the others (Rajbhandari et al., 2020,
/// arXiv:1910.02054). Each rank, or each host, has a copy of all weights; with one host, a barrier is all that is sent,
/// and nothing if each rank keeps its share alone.
class MessageMemory : public FusedMemory {
 public:
  /// @param shared  the weights' memory, by bucket, if the ranks of a host have one copy; empty otherwise
  MessageMemory(const UpdatePlan& plan, const std::vector<FusedBucket>& buckets, Communicator& communicator,
                std::vector<HostMemory> shared)
      : communicator_(communicator),
        has_one_copy_(plan.has_one_copy()),
        publishes_(!plan.has_one_copy() && !plan.shards_weights),
        shared_(std::move(shared)) {
    if (!shared_.empty()) guard_ = shared_.front().parts;
    if (has_one_copy_) guard_ = communicator.symmetric_memory(buckets.front().gradients);
    auto* engine = dynamic_cast<HostMemoryEngine*>(&communicator);
    for (const FusedBucket& bucket : buckets) {
      const at::Tensor& memory = bucket.gradients;
      if (engine != nullptr) readable_.push_back(engine->read_in_place(memory));
      parts_.push_back({memory,
                        bucket.weights,
                        bucket.weights.narrow(0, bucket.own.begin, bucket.own.end - bucket.own.begin),
                        {at::empty({bucket.own.end - bucket.own.begin}, memory.options()), bucket.own.begin},
                        nullptr,
                        nullptr});
    }
  }

  std::shared_ptr<Work> begin_reduction(std::size_t bucket, const GradientReduction& how) override {
    Part& part = parts_[bucket];
    if (how.adds) part.addend = at::empty_like(part.sum.tensor());
    part.divisor = how.divisor;
    return part.reduction =
               communicator_.reduce_scatter_async(how.adds ? part.addend : part.sum.tensor(), part.gradients, how.op);
  }
  bool is_reduced(std::size_t bucket) override {
    return !parts_[bucket].reduction || parts_[bucket].reduction->is_completed();
  }
  void end_reduction(std::size_t bucket) override {
    Part& part = parts_[bucket];
    if (!part.reduction) return;
    std::exchange(part.reduction, nullptr)->wait();
    if (part.divisor != 1) (part.addend.defined() ? part.addend : part.sum.tensor()).div_(part.divisor);
    if (part.addend.defined()) part.sum.tensor().add_(std::exchange(part.addend, at::Tensor()));
  }
  at::Tensor sum(std::size_t bucket) override {
    end_reduction(bucket);
    return parts_[bucket].sum.tensor();
  }
  GradientSource gradients(std::size_t bucket) override {
    end_reduction(bucket);
    return parts_[bucket].sum.source();
  }
  void access(const std::function<void()>& body) override {
    if (!guard_) return body();
    bool is_inside = false;
    try {
      guard_->access([&] {
        is_inside = true;
        body();
      });
    } catch (const Error&) {
      // The ranks of this host have been told that the group ended; the group knows why.
      if (!is_inside) communicator_.barrier();
      throw;
    }
  }
  bool zeroes_buckets() const override { return false; }
  void follow_scaling(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) override {
    parts_[bucket].sum.scale(begin, end, factor);
  }
  void publish(std::size_t bucket) override {
    if (!publishes_) return;
    Part& part = parts_[bucket];
    part.publication = communicator_.all_gather_async(part.weights, part.owned);
  }
  void finish(const std::function<void(std::size_t bucket)>& received) override {
    for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) end_reduction(bucket);
    if (has_one_copy_ && communicator_.world_size() > 1) communicator_.barrier();
    for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) {
      if (!parts_[bucket].publication) continue;
      std::exchange(parts_[bucket].publication, nullptr)->wait();
      if (received) received(bucket);
    }
  }

 private:
  struct Part {
    at::Tensor gradients;
    at::Tensor weights;
    at::Tensor owned;  // part of the weights
    OwnedSum sum;
    std::shared_ptr<Work> reduction;
    std::shared_ptr<Work> publication;
    at::Tensor addend = {};  // what the present reduction adds to the sum; undefined if it replaces the sum
    int divisor = 1;         // of the present reduction
  };
  Communicator& communicator_;
  const bool has_one_copy_;
  const bool publishes_;  // owned weights go to other ranks' copies
  std::vector<HostMemory> shared_;
  std::shared_ptr<SymmetricMemory> guard_;                  // of the weights; null if no other rank sees them
  std::vector<std::shared_ptr<SymmetricMemory>> readable_;  // keeps reductions in place
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<FusedMemory> make_message_memory(const UpdatePlan& plan, const std::vector<FusedBucket>& buckets,
                                                 Communicator& communicator, std::vector<HostMemory> shared) {
  return std::make_unique<MessageMemory>(plan, buckets, communicator, std::move(shared));
}

}  // namespace lockstep
