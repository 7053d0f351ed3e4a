// A group that fails on this rank alone, after an exchange of the tests' choice: the other ranks have its result.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"

namespace lockstep {

/// By rank, how many collectives it has had the result of, in memory that all ranks see.
using CallCounters = std::atomic<int>*;

class FailingGroup final : public Communicator {
 public:
  FailingGroup(std::shared_ptr<Communicator> group, CallCounters counters)
      : Communicator(group->membership()), group_(std::move(group)), counters_(counters) {}
  ~FailingGroup() override { stop_queues(); }

  /// The collective that follows after `calls` more fails.
  void fail_after(int calls) { left_ = calls; }

  const char* engine() const override { return group_->engine(); }
  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType dtype) override { return group_->allocate(sizes, dtype); }
  std::shared_ptr<SymmetricMemory> symmetric_memory(const at::Tensor& tensor) override {
    return group_->symmetric_memory(tensor);
  }

 private:
  template <typename Start>
  void forward(const Start& start) {
    std::shared_ptr<Work> work;
    {
      const std::lock_guard lock(mutex_);  // calls arrive from several threads
      work = start();
    }
    work->wait();
  }
  template <typename Start>
  void collective(const Start& start) {
    forward(start);
    const int calls = ++counters_[rank()];
    if (left_ < 0 || left_-- > 0) return;
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    for (int other = 0; other < world_size(); ++other) {
      while (counters_[other] < calls && !deadline.passed()) std::this_thread::yield();
    }
    group_->abort("the test ends it");
    throw Error("the test ends the group", "this rank", "nothing");
  }

  void do_all_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective([&] { return group_->all_reduce_async(tensor, operation.fingerprint.op); });
  }
  void do_broadcast(at::Tensor& tensor, const Operation& operation) override {
    collective([&] { return group_->broadcast_async(tensor, operation.fingerprint.root); });
  }
  void do_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective([&] { return group_->reduce_async(tensor, operation.fingerprint.root, operation.fingerprint.op); });
  }
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation&) override {
    collective([&] { return group_->all_gather_async(out, in); });
  }
  void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective([&] { return group_->reduce_scatter_async(out, in, operation.fingerprint.op); });
  }
  void do_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective([&] { return group_->gather_async(out, in, operation.fingerprint.root); });
  }
  void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective([&] { return group_->scatter_async(out, in, operation.fingerprint.root); });
  }
  void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation&) override {
    collective([&] { return group_->all_to_all_async(out, in); });
  }
  void do_barrier(const Operation&) override {
    collective([&] { return group_->barrier_async(); });
  }
  void do_send(const at::Tensor& tensor, const Operation& operation) override {
    forward([&] { return group_->isend(tensor, operation.fingerprint.root, operation.tag); });
  }
  void do_recv(at::Tensor& tensor, const Operation& operation) override {
    forward([&] { return group_->irecv(tensor, operation.fingerprint.root, operation.tag); });
  }
  void do_abort() override { group_->abort("the group around it has ended"); }

  std::shared_ptr<Communicator> group_;
  std::mutex mutex_;
  CallCounters counters_;
  std::atomic<int> left_{-1};
};

}  // namespace lockstep
