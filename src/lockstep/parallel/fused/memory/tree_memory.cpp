#include "lockstep/parallel/fused/memory/tree_memory.h"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "lockstep/parallel/fused/memory/owned_sum.h"
#include "lockstep/parallel/slices/slices.h"
#include "lockstep/parallel/slices/terms_in_place.h"

namespace lockstep {
namespace {

class TreeMemory : public FusedMemory {
 public:
  TreeMemory(const UpdatePlan& plan, const std::vector<FusedBucket>& buckets, const Slices& slices,
             Communicator& communicator, std::unique_ptr<FusedMemory> weights)
      : slices_(slices), weights_(std::move(weights)) {
    const bool reads_in_place = plan.sources == UpdatePlan::Sources::InPlace && communicator.world_size() > 1;
    for (const FusedBucket& bucket : buckets) {
      const std::int64_t numel = bucket.own.end - bucket.own.begin;
      parts_.emplace_back(bucket.sums.defined() ? bucket.sums.narrow(0, bucket.own.begin, numel)
                                                : at::empty({numel}, bucket.gradients.options()),
                          bucket.own.begin);
      Part& part = parts_.back();
      if (reads_in_place) {
        part.terms.emplace(slices, bucket.gradients, bucket.index, communicator, bucket.gradients_of);
      } else {
        part.exchange.emplace(slices.plan(), slices.sums(), bucket.index, communicator);
      }
    }
  }

  std::shared_ptr<Work> begin_reduction(std::size_t bucket, const GradientReduction&) override {
    Part& part = parts_[bucket];
    part.is_summed = false;
    return part.exchange ? part.exchange->start() : nullptr;
  }
  bool is_reduced(std::size_t bucket) override { return parts_[bucket].is_summed; }
  void end_reduction(std::size_t bucket) override { gradients(bucket); }
  at::Tensor sum(std::size_t bucket) override {
    gradients(bucket);
    return parts_[bucket].sum.tensor();
  }
  GradientSource gradients(std::size_t bucket) override {
    Part& part = parts_[bucket];
    if (!std::exchange(part.is_summed, true)) add_up(part);
    return part.sum.source();
  }
  void access(const std::function<void()>& body) override { weights_->access(body); }
  bool sums_are_final() const override { return true; }
  bool zeroes_buckets() const override { return false; }
  void follow_scaling(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) override {
    gradients(bucket);
    parts_[bucket].sum.scale(begin, end, factor);
  }
  void publish(std::size_t bucket) override { weights_->publish(bucket); }
  void finish(const std::function<void(std::size_t bucket)>& received) override { weights_->finish(received); }

 private:
  struct Part {
    Part(at::Tensor memory, std::int64_t begin) : sum(std::move(memory), begin) {}
    OwnedSum sum;  // the average over all slices
    bool is_summed = false;
    std::optional<TermExchange> exchange;  // nothing if the terms are read where they lie
    std::optional<TermsInPlace> terms;     // else
  };

  void add_up(Part& part) {
    const auto divisor = static_cast<double>(slices_.plan().tree().slices());
    if (part.exchange) return part.exchange->finish(part.sum.tensor(), divisor);
    part.terms->access(
        [&] { add_terms(slices_.plan(), part.terms->from(part.sum.begin()), part.sum.tensor(), divisor); });
  }

  const Slices& slices_;
  std::unique_ptr<FusedMemory> weights_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<FusedMemory> make_tree_memory(const UpdatePlan& plan, const std::vector<FusedBucket>& buckets,
                                              const Slices& slices, Communicator& communicator,
                                              std::unique_ptr<FusedMemory> weights) {
  return std::make_unique<TreeMemory>(plan, buckets, slices, communicator, std::move(weights));
}

}  // namespace lockstep
