#include "lockstep/net/server/waiters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

std::vector<std::uint64_t> requests(const std::vector<Waiters::Complete>& complete) {
  std::vector<std::uint64_t> numbers;
  for (const auto& one : complete) numbers.push_back(one.id.request);
  return numbers;
}

TEST(WaitersTest, CompleteWhenAllKeysAreThereInWhateverOrder) {
  const std::vector<std::vector<std::string>> orders{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}};
  for (const auto& order : orders) {
    KeyTable table("test");
    Waiters waiters;
    waiters.add({1, 7}, {"a", "b", "c"}, false, table);
    for (std::size_t i = 0; i < order.size(); ++i) {
      table.set(order[i], "");
      const auto complete = waiters.on_set(order[i], table);
      EXPECT_EQ(requests(complete),
                i + 1 < order.size() ? std::vector<std::uint64_t>{} : std::vector<std::uint64_t>{7});
    }
    EXPECT_EQ(waiters.count(1), 0U);
  }
}

TEST(WaitersTest, AKeyThatIsRemovedIsWaitedForAgain) {
  KeyTable table("test");
  Waiters waiters;
  waiters.add({1, 7}, {"a", "b"}, false, table);
  table.set("a", "");
  EXPECT_TRUE(waiters.on_set("a", table).empty());
  table.erase("a");
  table.set("b", "");
  EXPECT_TRUE(waiters.on_set("b", table).empty());
  table.set("a", "");
  EXPECT_EQ(requests(waiters.on_set("a", table)), (std::vector<std::uint64_t>{7}));
}

TEST(WaitersTest, RemovingTellsWhatIsMissingAndForgets) {
  KeyTable table("test");
  Waiters waiters;
  table.set("b", "");
  waiters.add({1, 7}, {"a", "b", "c"}, false, table);
  waiters.add({1, 8}, {"a"}, true, table);
  waiters.add({2, 7}, {"a"}, true, table);
  EXPECT_EQ(waiters.remove({1, 7}, table), (std::vector<std::string>{"a", "c"}));
  EXPECT_TRUE(waiters.remove({1, 7}, table).empty());
  EXPECT_EQ(waiters.count(1), 1U);
  waiters.remove_all(1);
  EXPECT_FALSE(waiters.contains({1, 8}));
  table.set("a", "");
  const auto complete = waiters.on_set("a", table);
  ASSERT_EQ(complete.size(), 1U);
  EXPECT_EQ(complete[0].id.connection, 2U);
  EXPECT_TRUE(complete[0].wants_value);
}

TEST(WaitersTest, AKeyNamedTwiceCountsOnce) {
  KeyTable table("test");
  Waiters waiters;
  waiters.add({1, 7}, {"a", "a"}, false, table);
  table.set("a", "");
  EXPECT_EQ(requests(waiters.on_set("a", table)), (std::vector<std::uint64_t>{7}));
}

}  // namespace
}  // namespace lockstep
