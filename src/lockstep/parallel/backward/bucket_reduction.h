#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// How a bucket of gradients is averaged over the ranks: by an all-reduce, or by a communication hook.
class BucketReduction {
 public:
  virtual ~BucketReduction() = default;
  /// All gradients of the bucket are there, and are taken off their parameters. Starts its communication and returns at
  /// once. @param op  of the all-reduce. @return  null if there is nothing to wait for
  virtual std::shared_ptr<Work> start(GradientBuckets& buckets, std::size_t bucket, ReduceOp op) = 0;
  /// The work of `start` has ended. Starts a second exchange, or returns null.
  virtual std::shared_ptr<Work> start_second(GradBucket& bucket) = 0;
  /// That has ended, too, if there was one.
  virtual void finish(GradBucket& bucket) = 0;

  /// Whether what lies behind the last bucket's gradients is added up with them. A hook may round or drop it.
  virtual bool carries_flags() const = 0;
  /// False if ranks' models may differ in this step; then nothing else is exchanged either.
  virtual bool synchronizes() const = 0;
  /// False if they may differ in some steps. Then ranks cannot join, and replicas are not compared.
  virtual bool allows_join() const = 0;
};

std::unique_ptr<BucketReduction> average_by_all_reduce(std::shared_ptr<Communicator> communicator);
std::unique_ptr<BucketReduction> average_by_hook(std::unique_ptr<CommunicationHook> hook,
                                                 std::shared_ptr<Communicator> communicator);

}  // namespace lockstep
