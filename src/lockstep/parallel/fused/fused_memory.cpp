#include "lockstep/parallel/fused/fused_memory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/comm/symmetric_memory.h"
#include "lockstep/optim/kernels/large_pages.h"
#include "lockstep/optim/update/gradient_memory.h"

namespace lockstep {
namespace {

GradientSource source_of(const std::vector<void*>& sources, const at::Tensor& like) {
  GradientSource source;
  source.sources = sources.data();
  source.num_sources = sources.size();
  element_type_of(like.scalar_type(), source.type);
  return source;
}

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

  std::shared_ptr<Work> begin_reduction(std::size_t, ReduceOp) override { return nullptr; }
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
  void finish() override {
    if (!symmetric_.empty()) communicator_.barrier();
  }

 private:
  Communicator& communicator_;
  std::vector<at::Tensor> memory_;
  std::vector<std::shared_ptr<SymmetricMemory>> symmetric_;
  std::vector<std::vector<void*>> sources_;  // by bucket and rank
};

/// Every rank gets the reduced gradients of its share, and sends its weights to the others (Rajbhandari et al., 2020,
/// arXiv:1910.02054, stage 1). Each rank, or each host, has a copy of all weights.
class MessageMemory : public FusedMemory {
 public:
  /// @param shared  the weights' memory, by bucket, if the ranks of a host have one copy; empty otherwise
  MessageMemory(const std::vector<FusedBucket>& buckets, Communicator& communicator, std::vector<HostMemory> shared)
      : communicator_(communicator), shared_(std::move(shared)) {
    auto* engine = dynamic_cast<HostMemoryEngine*>(&communicator);
    for (const FusedBucket& bucket : buckets) {
      const at::Tensor& memory = bucket.gradients;
      if (engine != nullptr) readable_.push_back(engine->read_in_place(memory));
      parts_.push_back({memory,
                        bucket.weights,
                        bucket.weights.narrow(0, bucket.own.begin, bucket.own.end - bucket.own.begin),
                        at::empty({bucket.own.end - bucket.own.begin}, memory.options()),
                        bucket.own.begin,
                        {},
                        nullptr,
                        nullptr});
      // Pointers of a source refer to the bucket's element 0.
      const auto offset = static_cast<std::uintptr_t>(bucket.own.begin) * memory.element_size();
      const auto first = reinterpret_cast<std::uintptr_t>(parts_.back().sum.data_ptr()) - offset;
      parts_.back().sources.push_back(reinterpret_cast<void*>(first));
    }
  }

  std::shared_ptr<Work> begin_reduction(std::size_t bucket, ReduceOp op) override {
    Part& part = parts_[bucket];
    return part.reduction = communicator_.reduce_scatter_async(part.sum, part.gradients, op);
  }
  GradientSource gradients(std::size_t bucket) override {
    Part& part = parts_[bucket];
    if (part.reduction) std::exchange(part.reduction, nullptr)->wait();
    return source_of(part.sources, part.sum);
  }
  void access(const std::function<void()>& body) override {
    if (shared_.empty()) return body();
    bool is_inside = false;
    try {
      shared_.front().parts->access([&] {
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
    Part& part = parts_[bucket];
    begin = std::max(begin, part.begin) - part.begin;
    end = std::min(end, part.begin + part.sum.numel()) - part.begin;
    if (begin < end) part.sum.narrow(0, begin, end - begin).mul_(factor);
  }
  void publish(std::size_t bucket) override {
    Part& part = parts_[bucket];
    part.publication = communicator_.all_gather_async(part.weights, part.owned);
  }
  void finish() override {
    for (Part& part : parts_) {
      if (part.reduction) std::exchange(part.reduction, nullptr)->wait();
      if (part.publication) std::exchange(part.publication, nullptr)->wait();
    }
  }

 private:
  struct Part {
    at::Tensor gradients;
    at::Tensor weights;
    at::Tensor owned;    // part of the weights
    at::Tensor sum;      // of all ranks' gradients in the owned elements
    std::int64_t begin;  // of the owned elements
    std::vector<void*> sources;
    std::shared_ptr<Work> reduction;
    std::shared_ptr<Work> publication;
  };
  Communicator& communicator_;
  std::vector<HostMemory> shared_;
  std::vector<std::shared_ptr<SymmetricMemory>> readable_;  // keeps reductions in place
  std::vector<Part> parts_;
};

at::Tensor allocate_private(std::int64_t numel, const at::Tensor& like) {
  at::Tensor memory = at::empty({numel}, like.options().requires_grad(false));
  advise_large_pages(memory.data_ptr(), memory.nbytes());
  return memory;
}

// One piece of memory for all ranks. The pages of each rank's part are on its node of the machine.
at::Tensor allocate_shared(Communicator& communicator, std::int64_t numel, const at::Tensor& like) {
  if (communicator.world_size() == 1) return allocate_private(numel, like);
  const at::Tensor part = communicator.allocate({numel / communicator.world_size()}, like.scalar_type());
  const auto symmetric = communicator.symmetric_memory(part);
  return at::from_blob(
      symmetric->copy(0), {numel}, [part, symmetric](void*) {}, part.options());
}

// Whether this rank is the one that fills its copy of the weights at first.
bool fills_copy(const UpdatePlan& plan, int rank) {
  return !plan.shares_weights() || plan.places[static_cast<std::size_t>(rank)].on_host == 0;
}

template <typename Body>
void for_each_place(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients, const Body& body) {
  for (const FusedBucket& bucket : buckets) {
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      at::Tensor parameter = gradients.parameter(bucket.parameters[i]);
      body(parameter, weights_place(bucket, i, parameter.sizes()));
    }
  }
}

}  // namespace

std::unique_ptr<FusedMemory> make_fused_memory(const UpdatePlan& plan, std::vector<FusedBucket>& buckets,
                                               const GradientBuckets& gradients, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  std::vector<HostMemory> shared;
  for (FusedBucket& bucket : buckets) {
    const at::Tensor& like = gradients.parameter(bucket.parameters.front());
    const std::int64_t numel = bucket.gradients.numel();
    if (!plan.shares_weights()) {
      bucket.weights = allocate_private(numel, like);
    } else if (plan.hosts == 1) {
      bucket.weights = allocate_shared(communicator, numel, like);
    } else {
      shared.push_back(dynamic_cast<HostMemoryEngine&>(communicator).allocate_for_host(numel, like.scalar_type()));
      bucket.weights = shared.back().memory;
    }
  }
  if (fills_copy(plan, communicator.rank())) {
    for (FusedBucket& bucket : buckets) bucket.weights.zero_();  // the gaps
    for_each_place(buckets, gradients,
                   [](at::Tensor& parameter, at::Tensor place) { place.copy_(parameter.detach()); });
  }
  if (communicator.world_size() > 1) communicator.barrier();
  for_each_place(buckets, gradients, [](at::Tensor& parameter, const at::Tensor& place) { parameter.set_data(place); });
  switch (plan.sources) {
    case UpdatePlan::Sources::InPlace:
      return std::make_unique<SharedMemory>(buckets, communicator);
    case UpdatePlan::Sources::Messages:
      break;
  }
  return std::make_unique<MessageMemory>(buckets, communicator, std::move(shared));
}

}  // namespace lockstep
