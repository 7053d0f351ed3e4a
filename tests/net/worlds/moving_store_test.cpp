// A store that moves to another host: what its clients see.
#include "lockstep/net/worlds/moving_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <future>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/store_errors.h"
#include "lockstep/net/worlds/enter_job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

class Moving : public ::testing::Test {
 protected:
  std::unique_ptr<StoreServer> serve(const std::string& name) const {
    return std::make_unique<StoreServer>(SocketAddress::unix_socket(folder_ / name), "");
  }
  // A process of generation 0 that has entered at `server`.
  std::shared_ptr<MovingStore> enter(StoreServer& server) const {
    server.resume_generation(0);
    auto client = std::make_shared<StoreClient>(server.address(), "", soon());
    EXPECT_EQ(client->enter(self_, soon()).round, 0);
    return std::make_shared<MovingStore>(std::move(client), self_, 0, file_);
  }
  void say_moved(std::int64_t era, const StoreServer& server) const {
    write_store_move(file_, {era, {3, 5}, server.address().text()});
  }

  const TemporaryFolder folder_;
  const std::string file_ = folder_ / "store-now";
  const JoinRequest self_{0, 1, {5, "host-a", "id-a", 4711, 0}};
};

TEST_F(Moving, FollowsTheLaunchersWord) {
  auto first = serve("first");
  const auto store = enter(*first);
  EXPECT_EQ(store->era(), 0);
  store->set("key", "value");
  first.reset();
  EXPECT_THROW(store->try_get("key"), StoreLostError);

  auto second = serve("second");
  second->resume_generation(0);
  std::promise<void> moved;
  store->watch([&] { moved.set_value(); });
  auto move = std::async(std::launch::async, [&] { return store->follow(soon()); });
  say_moved(1, *second);
  EXPECT_EQ(move.get().roll, (std::set<int>{3, 5}));
  EXPECT_EQ(moved.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(store->era(), 1);
  EXPECT_EQ(store->try_get("key"), std::nullopt) << "nothing of the lost store is left";
  store->set("key", "other");
  EXPECT_EQ(store->try_get("key"), "other");
}

// The server lives, behind a link that is down.
TEST_F(Moving, GivesAStoreUpThatHasMovedAlthoughItAnswers) {
  auto first = serve("first"), second = serve("second");
  second->resume_generation(0);
  const auto store = enter(*first);
  auto waits = std::async(std::launch::async, [&] { store->get("never set", Deadline::never()); });
  std::promise<void> moved;
  store->watch([&] {
    EXPECT_THROW(store->try_get("key"), StoreLostError);
    moved.set_value();
  });
  say_moved(1, *second);
  EXPECT_THROW(waits.get(), StoreLostError);
  store->follow(soon());
  EXPECT_EQ(moved.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready)
      << "what follows comes after the word that the store has moved";
  EXPECT_EQ(store->try_get("key"), std::nullopt);
}

TEST_F(Moving, GoesToTheNewestOfSeveral) {
  auto first = serve("first"), second = serve("second"), third = serve("third");
  third->resume_generation(0);
  const auto store = enter(*first);
  say_moved(1, *second);
  second.reset();
  say_moved(2, *third);
  store->watch([] {});
  EXPECT_EQ(store->follow(soon()).era, 2);
}

// The host that was to serve is lost before anyone could tell so.
TEST_F(Moving, WaitsForNewsIfNobodyAnswersThere) {
  auto first = serve("first"), second = serve("second"), third = serve("third");
  third->resume_generation(0);
  const auto store = enter(*first);
  store->watch([] {});
  say_moved(1, *second);
  second.reset();
  auto move = std::async(std::launch::async, [&] { return store->follow(soon()); });
  EXPECT_EQ(move.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout) << "it looks for the second";
  say_moved(2, *third);
  EXPECT_EQ(move.get().era, 2);
}

TEST_F(Moving, RefusesAProcessOfALaterGroup) {
  auto first = serve("first"), second = serve("second");
  first->resume_generation(0);
  second->resume_generation(0);
  auto client = std::make_shared<StoreClient>(first->address(), "", soon());
  client->enter(self_, soon());
  MovingStore store(std::move(client), self_, /*round=*/1, file_);
  store.watch([] {});
  say_moved(1, *second);
  EXPECT_THROW(store.follow(soon()), Error);
}

TEST_F(Moving, KnowsItsEraIfItBeginsThere) {
  auto second = serve("second");
  say_moved(1, *second);
  EXPECT_EQ(enter(*second)->era(), 1);
  // One that reached the lost store yet must follow.
  auto first = serve("first");
  const auto late = enter(*first);
  EXPECT_THROW(late->set("key", "value"), StoreLostError);
  EXPECT_EQ(late->era(), 0);
}

// The host that served when the launcher started this process may be lost before the process has entered.
TEST_F(Moving, IsSoughtAgainByAProcessThatFindsNobodyWhereItWas) {
  auto first = serve("first"), second = serve("second");
  second->resume_generation(0);
  const std::map<std::string, std::string> variables{
      {"LOCKSTEP_MEMBER", "5"}, {"LOCKSTEP_STORE", first->address().text()}, {"LOCKSTEP_STORE_FILE", file_}};
  first.reset();
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  auto entered = std::async(std::launch::async, [] { return enter_job(soon()); });
  EXPECT_EQ(entered.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout) << "it looks at the first";
  say_moved(1, *second);
  const JobEntrance job = entered.get();
  for (const auto& each : variables) ::unsetenv(each.first.c_str());
  EXPECT_EQ(moving_store_below(job.store)->era(), 1);
  job.store->set("key", "value");
}

TEST_F(Moving, IsFoundBelowAGroupsStore) {
  auto first = serve("first");
  const std::shared_ptr<Store> store = enter(*first);
  const auto prefixed = std::make_shared<PrefixStore>(std::make_shared<PrefixStore>(store, "a"), "b");
  EXPECT_EQ(moving_store_below(prefixed), store);
  EXPECT_EQ(moving_store_below(std::make_shared<PrefixStore>(nullptr, "a")), nullptr);
}

TEST_F(Moving, RefusesAFileThatSaysNothing) {
  write_store_move(file_, {1, {}, ""});
  EXPECT_THROW(read_store_move(file_), Error);
}

}  // namespace
}  // namespace lockstep
