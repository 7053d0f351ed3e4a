// Tests how ranks agree before and after work of a single rank, and the number of messages.
#include "lockstep/checkpoint/agreement.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/gather_texts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

Membership one_of(int world_size, int rank) {
  Membership membership;
  membership.world_size = world_size;
  membership.rank = rank;
  for (int other = 0; other < world_size; ++other) membership.peers.push_back({other, "h", "h", other, other});
  return membership;
}

// A group in which all ranks contribute what this one does. It counts its calls.
class CountingGroup : public Communicator {
 public:
  explicit CountingGroup(int world_size) : Communicator(one_of(world_size, 5)) {}
  ~CountingGroup() override { stop_queues(); }
  const char* engine() const override { return "counting"; }
  int calls = 0;

 private:
  void do_all_reduce(at::Tensor&, const Operation&) override { ++calls; }
  void do_broadcast(at::Tensor&, const Operation&) override { ++calls; }
  void do_reduce(at::Tensor&, const Operation&) override { ++calls; }
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation&) override {
    ++calls;
    out.copy_(in.repeat({world_size()}));
  }
  void do_reduce_scatter(at::Tensor&, const at::Tensor&, const Operation&) override { ++calls; }
  void do_gather(at::Tensor&, const at::Tensor&, const Operation&) override { ++calls; }
  void do_scatter(at::Tensor&, const at::Tensor&, const Operation&) override { ++calls; }
  void do_all_to_all(at::Tensor&, const at::Tensor&, const Operation&) override { ++calls; }
  void do_send(const at::Tensor&, const Operation&) override { ++calls; }
  void do_recv(at::Tensor&, const Operation&) override { ++calls; }
  void do_barrier(const Operation&) override { ++calls; }
  void do_abort() override {}
};

TEST(Agreement, CostsOneOrTwoCallsWhateverTheNumberOfRanks) {
  for (const int ranks : {8, 1024}) {
    CountingGroup group(ranks);
    EXPECT_EQ(gather_texts(group, ""), std::vector<std::string>(static_cast<std::size_t>(ranks)));
    EXPECT_EQ(group.calls, 1);
    EXPECT_EQ(gather_texts(group, "text"), std::vector<std::string>(static_cast<std::size_t>(ranks), "text"));
    EXPECT_EQ(group.calls, 3);
    run_together(group, "nothing", [] {});
    EXPECT_EQ(group.calls, 4);
  }
}

TEST(Agreement, TextsOfAllLengthsArrive) {
  run_ranks_as_threads(3, [](const Membership& membership) {
    const auto group = make_communicator("thread", membership);
    const std::vector<std::string> texts{std::string("\0\xff", 2), "", std::string(100'000, 'x')};
    EXPECT_EQ(gather_texts(*group, texts[static_cast<std::size_t>(group->rank())]), texts);
  });
}

TEST(Agreement, OneThatFailsIsNamedAtOnceToThoseThatWait) {
  run_ranks_as_threads(3, [](const Membership& membership) {
    const auto group = make_communicator("thread", membership);
    std::string text;
    std::optional<FailureCause> cause;
    try {
      run_together(*group, "saving the model", [&] {
        if (group->rank() == 0) throw Error("the disk is full", "/data", "free space");
      });
    } catch (const Error& error) {
      text = error.what();
      if (const FailureCause* known = cause_of(error)) cause = *known;
    }
    EXPECT_NE(text.find("the disk is full"), std::string::npos) << text;
    if (group->rank() != 0) {
      EXPECT_NE(text.find("saving the model: rank 0 failed"), std::string::npos) << text;
      EXPECT_EQ(cause, (FailureCause{FailureCause::Kind::AbortedByPeer, 0}));
    }
    group->barrier();  // the group still works
  });
}

TEST(Agreement, AProcessAloneRunsTheBodyAndGetsItsError) {
  const std::shared_ptr<Communicator> alone;
  int runs = 0;
  run_together(alone, "saving the model", [&] { ++runs; });
  EXPECT_EQ(runs, 1);
  try {
    run_together(alone, "saving the model", [] { throw Error("the disk is full", "/data", "free space"); });
    FAIL() << "the error of the body is lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.happened(), "the disk is full");
  }
}

TEST(Agreement, OneThatTakesLongerThanTheTimeoutIsWaitedFor) {
  static constexpr std::chrono::milliseconds kLimit{1000};
  RanksOptions options;
  options.timeout = kLimit;
  run_ranks_as_threads(
      2,
      [](const Membership& membership) {
        const auto group = make_communicator("thread", membership);
        run_together(*group, "hashing", [&] {
          // being late is what is tested
          if (group->rank() == 0) std::this_thread::sleep_for(kLimit * 5 / 4);
        });
      },
      options);
}

}  // namespace
}  // namespace lockstep
