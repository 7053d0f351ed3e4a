#include "lockstep/parallel/backward/bucket_reduction.h"

#include <utility>

namespace lockstep {
namespace {

class AverageByAllReduce : public BucketReduction {
 public:
  explicit AverageByAllReduce(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}
  std::shared_ptr<Work> start(GradientBuckets& buckets, std::size_t bucket, ReduceOp op) override {
    return communicator_->all_reduce_async(buckets[bucket].message, op);
  }
  std::shared_ptr<Work> start_second(GradBucket&) override { return nullptr; }
  void finish(GradBucket&) override {}
  bool carries_flags() const override { return true; }
  bool synchronizes() const override { return true; }
  bool allows_join() const override { return true; }

 private:
  std::shared_ptr<Communicator> communicator_;
};

class AverageByHook : public BucketReduction {
 public:
  AverageByHook(std::unique_ptr<CommunicationHook> hook, std::shared_ptr<Communicator> communicator)
      : hook_(std::move(hook)), communicator_(std::move(communicator)) {}
  std::shared_ptr<Work> start(GradientBuckets& buckets, std::size_t bucket, ReduceOp) override {
    return hook_->start(buckets.for_hook(bucket), *communicator_);
  }
  std::shared_ptr<Work> start_second(GradBucket& bucket) override {
    return hook_->start_second(bucket, *communicator_);
  }
  void finish(GradBucket& bucket) override { hook_->finish(bucket, *communicator_); }
  bool carries_flags() const override { return false; }
  bool synchronizes() const override { return hook_->synchronizes(); }
  bool allows_join() const override { return hook_->allows_join(); }

 private:
  std::unique_ptr<CommunicationHook> hook_;
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace

std::unique_ptr<BucketReduction> average_by_all_reduce(std::shared_ptr<Communicator> communicator) {
  return std::make_unique<AverageByAllReduce>(std::move(communicator));
}

std::unique_ptr<BucketReduction> average_by_hook(std::unique_ptr<CommunicationHook> hook,
                                                 std::shared_ptr<Communicator> communicator) {
  return std::make_unique<AverageByHook>(std::move(hook), std::move(communicator));
}

}  // namespace lockstep
