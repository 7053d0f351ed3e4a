#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/memory_store.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/store/store_client.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::error_of;
using testing::kSecret;
using testing::patience;

// Two views of one store, as two ranks hold them.
struct Pair {
  std::shared_ptr<void> server;
  std::shared_ptr<Store> first;
  std::shared_ptr<Store> second;
};

Pair over_socket(const SocketAddress& address) {
  auto server = std::make_shared<StoreServer>(address, kSecret);
  const auto connect = [&] { return std::make_shared<StoreClient>(server->address(), kSecret, testing::patience()); };
  return {server, connect(), connect()};
}

struct StoreCase {
  const char* name;
  std::function<Pair(const std::string& folder)> make;
  friend std::ostream& operator<<(std::ostream& out, const StoreCase& c) { return out << c.name; }
};

class StoreContract : public ::testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override {
    if (std::string(GetParam().name) == "Ipv6" && !testing::has_ipv6()) GTEST_SKIP() << "this host has no IPv6";
    pair_ = GetParam().make(folder_.path());
  }
  Store& first() { return *pair_.first; }
  Store& second() { return *pair_.second; }

 private:
  TemporaryFolder folder_;
  Pair pair_;
};

TEST_P(StoreContract, WhatOneSetsTheOtherSees) {
  EXPECT_EQ(second().try_get("key"), std::nullopt);
  first().set("key", "value");
  EXPECT_EQ(second().try_get("key"), "value");
  second().set("key", "other");
  EXPECT_EQ(first().get("key", patience()), "other");
  EXPECT_EQ(first().num_keys(), 1);
}

TEST_P(StoreContract, AsksForManyKeysAtOnce) {
  EXPECT_TRUE(first().try_get_all({}).empty());
  first().set("a", "1");
  first().set("c", "");
  const auto values = second().try_get_all({"a", "b", "c", "a"});
  ASSERT_EQ(values.size(), 4U);
  EXPECT_EQ(values[0], "1");
  EXPECT_EQ(values[1], std::nullopt);
  EXPECT_EQ(values[2], "");
  EXPECT_EQ(values[3], "1");
}

TEST_P(StoreContract, AsksForMoreThanFitsInOneAnswer) {
  // One is larger than an answer, and of the others two fit, but not three.
  std::vector<std::string> keys, values;
  for (const std::size_t bytes : {2u, 2u, 6u, 2u, 2u, 2u}) {
    const char digit = static_cast<char>('0' + keys.size());
    keys.push_back(std::string(2000, 'k') + digit);
    values.push_back(std::string((bytes << 20) * 3 / 4, digit));
    first().set(keys.back(), values.back());
  }
  EXPECT_TRUE(second().try_get_all(keys) == std::vector<std::optional<std::string>>(values.begin(), values.end()));
}

TEST_P(StoreContract, KeysAndValuesAreBytes) {
  const std::string bytes("\0\xff\n\x80 a\0", 7);
  first().set(bytes, bytes);
  EXPECT_EQ(second().get(bytes, patience()), bytes);
  first().set("empty", "");
  EXPECT_EQ(second().try_get("empty"), "");
}

TEST_P(StoreContract, GetWaitsForTheValue) {
  std::thread setter([this] { second().set("late", "came"); });
  EXPECT_EQ(first().get("late", patience()), "came");
  setter.join();
}

TEST_P(StoreContract, GetTimesOutAndNamesTheKey) {
  const std::string text =
      error_of<TimeoutError>([this] { first().get("no/such key", Deadline::after(milliseconds(30))); });
  EXPECT_NE(text.find("no/such key\""), std::string::npos) << text;
  first().set("no/such key", "now");  // the earlier wait has left nothing behind
  EXPECT_EQ(first().get("no/such key", patience()), "now");
}

TEST_P(StoreContract, WaitNamesOnlyTheKeysThatAreMissing) {
  first().set("here", "");
  const std::string text = error_of<TimeoutError>([this] {
    second().wait({"here", "missing 1", "missing 2"}, Deadline::after(milliseconds(30)));
  });
  EXPECT_NE(text.find("missing 1\""), std::string::npos) << text;
  EXPECT_NE(text.find("missing 2\""), std::string::npos) << text;
  EXPECT_EQ(text.find("here\""), std::string::npos) << text;
}

TEST_P(StoreContract, WaitEndsWithTheLastKeyInAnyOrder) {
  std::thread setter([this] {
    for (const char* key : {"c", "a", "d", "b"}) second().set(key, "");
  });
  first().wait({"a", "b", "c", "d"}, patience());
  EXPECT_EQ(first().num_keys(), 4);
  setter.join();
  first().wait({}, patience());
}

TEST_P(StoreContract, AddCountsAndWakesWaiters) {
  std::thread waiter([this] { EXPECT_EQ(second().get("count", patience()), "5"); });
  EXPECT_EQ(first().add("count", 5), 5);
  waiter.join();
  EXPECT_EQ(second().add("count", -7), -2);
  EXPECT_EQ(first().get("count", patience()), "-2");
}

TEST_P(StoreContract, AddRefusesTextAndOverflow) {
  first().set("text", "5 apples");
  EXPECT_NE(error_of([this] { first().add("text", 1); }).find("text\""), std::string::npos);
  first().set("big", "9223372036854775807");
  EXPECT_NE(error_of([this] { first().add("big", 1); }).find("64 bits"), std::string::npos);
  EXPECT_EQ(first().get("big", patience()), "9223372036854775807");
}

TEST_P(StoreContract, CompareSetSetsOnlyWhatMatches) {
  EXPECT_EQ(first().compare_set("key", "something", "new"), "");  // not set: only an empty `expected` matches
  EXPECT_EQ(first().try_get("key"), std::nullopt);
  EXPECT_EQ(first().compare_set("key", "", "one"), "one");
  EXPECT_EQ(second().compare_set("key", "", "two"), "one");
  EXPECT_EQ(second().compare_set("key", "one", "two"), "two");
  EXPECT_EQ(first().try_get("key"), "two");
}

TEST_P(StoreContract, DeleteTellsWhetherTheKeyWasSet) {
  first().set("key", "value");
  EXPECT_TRUE(second().delete_key("key"));
  EXPECT_FALSE(second().delete_key("key"));
  EXPECT_EQ(first().try_get("key"), std::nullopt);
  EXPECT_EQ(first().num_keys(), 0);
}

TEST_P(StoreContract, LimitsAreErrorsAndHarmNothing) {
  EXPECT_NE(error_of([this] { first().set(std::string(5000, 'k'), ""); }).find("4096 bytes"), std::string::npos);
  EXPECT_NE(error_of([this] { first().set("big", std::string(9 << 20, 'v')); }).find("big\""), std::string::npos);
  first().set("key", "value");
  EXPECT_EQ(second().try_get("key"), "value");
}

TEST_P(StoreContract, TheLargestValueFits) {
  const std::string value(std::size_t{8} << 20, 'v');
  first().set("big", value);
  EXPECT_TRUE(second().get("big", patience()) == value);
}

TEST_P(StoreContract, ManyThreadsCountTogether) {
  constexpr int kThreads = 8;
  constexpr int kAdds = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      Store& store = i % 2 == 0 ? first() : second();
      for (int k = 0; k < kAdds; ++k) store.add("sum", 1);
      store.add("done", 1);
      store.wait({"all"}, patience());
    });
  }
  while (first().try_get("done") != std::to_string(kThreads)) std::this_thread::yield();
  EXPECT_EQ(first().get("sum", patience()), std::to_string(kThreads * kAdds));
  first().set("all", "");
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    ::testing::Values(
        StoreCase{"Memory",
                  [](const std::string&) {
                    auto store = std::make_shared<MemoryStore>();
                    return Pair{nullptr, store, store};
                  }},
        StoreCase{"Prefix",
                  [](const std::string&) {
                    auto store = std::make_shared<MemoryStore>();
                    return Pair{nullptr, std::make_shared<PrefixStore>(store, "p"),
                                std::make_shared<PrefixStore>(store, "p")};
                  }},
        StoreCase{"Unix",
                  [](const std::string& folder) { return over_socket(SocketAddress::unix_socket(folder + "/store")); }},
        StoreCase{"Ipv4", [](const std::string&) { return over_socket(SocketAddress::tcp("127.0.0.1", 0)); }},
        StoreCase{"Ipv6", [](const std::string&) { return over_socket(SocketAddress::tcp("::1", 0)); }}),
    [](const auto& test) { return test.param.name; });

TEST(PrefixStoreTest, PrefixesDoNotSeeEachOther) {
  auto store = std::make_shared<MemoryStore>();
  PrefixStore a(store, "a");
  PrefixStore b(store, "b");
  a.set("key", "of a");
  EXPECT_EQ(b.try_get("key"), std::nullopt);
  EXPECT_EQ(store->try_get("a/key"), "of a");
}

TEST(MemoryStoreTest, MarkedRanksAreLostOnce) {
  MemoryStore store;
  store.mark_lost(2, "its thread threw");
  store.mark_lost(2, "again");
  ASSERT_EQ(store.lost_ranks().size(), 1U);
  EXPECT_EQ(store.lost_ranks()[0].rank, 2);
  EXPECT_EQ(store.lost_ranks()[0].cause, "its thread threw");
}

}  // namespace
}  // namespace lockstep
