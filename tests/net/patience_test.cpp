#include "lockstep/net/store/patience.h"
#include "lockstep/net/long_work.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/net/store/memory_store.h"
#include "tests/net/net_fixtures.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::eventually;

constexpr milliseconds kTimeout{1600};

class PatienceTest : public ::testing::Test {
 protected:
  // Whether a wait of rank 1 gets more time while it continues.
  bool is_given_time() {
    const auto before = waits_.extension()->at();
    return eventually([&] {
      waits_.waiting();
      return waits_.extension()->at() > before;
    });
  }
  // Long enough for several checks.
  void wait_for_looks() {
    for (const Deadline end = Deadline::after(8 * waits_.period()); !end.passed();) {
      waits_.waiting();
      std::this_thread::sleep_for(waits_.period() / 4);  // the test is about time
    }
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Patience works_{store_, 0, kTimeout};
  Patience waits_{store_, 1, kTimeout};
};

TEST_F(PatienceTest, WhoWaitsGetsTimeWhileAnotherWorks) {
  const std::uint64_t work = works_.begin("counting sheep", WorkLog::Quiet);
  EXPECT_TRUE(is_given_time());
  EXPECT_TRUE(is_given_time());  // repeatedly
  EXPECT_GT(waits_.extension()->at(), Deadline::Clock::now());
  EXPECT_NE(waits_.who_works().find("rank 0 is counting sheep"), std::string::npos) << waits_.who_works();
  works_.end(work);
  EXPECT_TRUE(eventually([&] { return waits_.extension()->at() < Deadline::Clock::now(); }));
  EXPECT_TRUE(eventually([&] { return waits_.who_works().empty(); }));
}

TEST_F(PatienceTest, NobodyWorksNoTime) {
  const auto before = waits_.extension()->at();
  wait_for_looks();
  EXPECT_EQ(waits_.extension()->at(), before);
}

TEST_F(PatienceTest, WhatWasToldBeforeTheWaitIsNoNews) {
  const std::uint64_t work = works_.begin("an earlier work", WorkLog::Quiet);
  EXPECT_TRUE(eventually([&] { return store_->num_keys() > 0; }));
  works_.end(work);
  const auto before = waits_.extension()->at();
  wait_for_looks();
  EXPECT_EQ(waits_.extension()->at(), before);
}

TEST_F(PatienceTest, OwnWorkGivesNoTime) {
  const std::uint64_t work = waits_.begin("working beside", WorkLog::Quiet);
  const auto before = waits_.extension()->at();
  wait_for_looks();
  EXPECT_EQ(waits_.extension()->at(), before);
  const std::uint64_t others = works_.begin("working too", WorkLog::Quiet);
  EXPECT_TRUE(is_given_time());  // a rank's own report does not hide the others'
  works_.end(others);
  waits_.end(work);
}

TEST_F(PatienceTest, ShortWorkCostsTheStoreNothing) {
  for (int i = 0; i < 100; ++i) works_.end(works_.begin("a moment", WorkLog::Quiet));
  EXPECT_EQ(store_->num_keys(), 0);
}

TEST(PatienceTimes, SeveralLooksFitInATimeout) {
  const auto store = std::make_shared<MemoryStore>();
  for (const auto timeout : {milliseconds(1000), milliseconds(60'000), milliseconds(1'800'000)}) {
    EXPECT_LE(8 * Patience(store, 0, timeout).period(), timeout);
  }
  EXPECT_LE(Patience(store, 0, std::chrono::minutes(30)).period(), std::chrono::seconds(15));
}

}  // namespace
}  // namespace lockstep
