#include "lockstep/parallel/fused/memory/shared_memory.h"

#include "lockstep/comm/symmetric_memory.h"

namespace lockstep {
namespace {

/// All ranks can read all gradients, and share one copy of the weights.
class SharedMemory : public FusedMemory {
 public:
  SharedMemory(const std::vector<FusedBucket>& buckets, Communicator& communicator) : communicator_(communicator) {
    for (const FusedBucket& bucket : buckets) {
      const at::Tensor& memory = bucket.gradients;
      memory_.push_back(memory);
      sources_.emplace_back();
      if (communicator.world_size() == 1) {
        sources_.back().push_back(memory.data_ptr());
        continue;
      }
      symmetric_.push_back(communicator.symmetric_memory(memory));
      for (int rank = 0; rank < communicator.world_size(); ++rank) {
        sources_.back().push_back(symmetric_.back()->copy(rank));
      }
    }
  }

  std::shared_ptr<Work> begin_reduction(std::size_t, const GradientReduction&) override { return nullptr; }
  bool is_reduced(std::size_t) override { return true; }
  void end_reduction(std::size_t) override {}
  at::Tensor sum(std::size_t) override { return {}; }
  GradientSource gradients(std::size_t bucket) override { return source_of(sources_[bucket], memory_[bucket]); }
  void access(const std::function<void()>& body) override {
    if (symmetric_.empty()) {
      body();
    } else {
      symmetric_.front()->access(body);
    }
  }
  bool zeroes_buckets() const override { return true; }
  void follow_scaling(std::size_t, std::int64_t, std::int64_t, double) override {}
  void publish(std::size_t) override {}
  void finish(const std::function<void(std::size_t bucket)>&) override {
    if (!symmetric_.empty()) communicator_.barrier();
  }

 private:
  Communicator& communicator_;
  std::vector<at::Tensor> memory_;
  std::vector<std::shared_ptr<SymmetricMemory>> symmetric_;
  std::vector<std::vector<void*>> sources_;  // by bucket and rank
};

}  // namespace

std::unique_ptr<FusedMemory> make_shared_memory(const std::vector<FusedBucket>& buckets, Communicator& communicator) {
  return std::make_unique<SharedMemory>(buckets, communicator);
}

}  // namespace lockstep
