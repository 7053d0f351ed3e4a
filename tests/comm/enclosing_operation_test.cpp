// The mark that a step of a larger operation takes with it.
#include "lockstep/comm/communicator/enclosing_operation.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {
namespace {

Membership pair_of_ranks() {
  Membership membership;
  membership.world_size = 2;
  membership.peers = {{0, "here", "h", 1, 0}, {1, "here", "h", 1, 1}};
  membership.timeout = std::chrono::seconds(60);
  return membership;
}

// Barriers note their marks; the first one waits for `release`.
class MarkedBarriers : public Communicator {
 public:
  explicit MarkedBarriers(std::shared_future<void> release)
      : Communicator(pair_of_ranks()), release_(std::move(release)) {}
  ~MarkedBarriers() override { stop_queues(); }
  const char* engine() const override { return "marks"; }
  const std::vector<std::uint32_t>& marks() const { return marks_; }

 private:
  void do_barrier(const Operation& operation) override {
    if (marks_.empty()) release_.wait();
    marks_.push_back(operation.enclosing_mark);
  }
  void do_all_reduce(at::Tensor&, const Operation&) override {}
  void do_broadcast(at::Tensor&, const Operation&) override {}
  void do_reduce(at::Tensor&, const Operation&) override {}
  void do_all_gather(at::Tensor&, const at::Tensor&, const Operation&) override {}
  void do_reduce_scatter(at::Tensor&, const at::Tensor&, const Operation&) override {}
  void do_gather(at::Tensor&, const at::Tensor&, const Operation&) override {}
  void do_scatter(at::Tensor&, const at::Tensor&, const Operation&) override {}
  void do_all_to_all(at::Tensor&, const at::Tensor&, const Operation&) override {}
  void do_send(const at::Tensor&, const Operation&) override {}
  void do_recv(at::Tensor&, const Operation&) override {}
  void do_abort() override {}

  const std::shared_future<void> release_;
  std::vector<std::uint32_t> marks_;
};

TEST(EnclosingOperation, IsKnownInTheQueuesThreadToo) {
  std::promise<void> release;
  MarkedBarriers group(release.get_future().share());
  std::shared_ptr<Work> plain;
  std::shared_ptr<Work> step;
  std::uint32_t mark = 0;
  plain = group.barrier_async();
  {
    Fingerprint whole;
    whole.sequence = 41;
    const EnclosingOperation enclosing(whole);
    mark = EnclosingOperation::mark();
    step = group.barrier_async();
  }
  release.set_value();
  plain->wait();
  step->wait();
  EXPECT_NE(mark, 0U);
  EXPECT_EQ(group.marks(), (std::vector<std::uint32_t>{0, mark}));
  EXPECT_EQ(EnclosingOperation::mark(), 0U);
}

}  // namespace
}  // namespace lockstep
