// The message that a store writes in place of a lost client.
#include <gtest/gtest.h>

#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

class Will : public ::testing::Test {
 protected:
  std::unique_ptr<StoreClient> client(std::chrono::milliseconds heartbeat = 1000ms) const {
    StoreClientOptions options;
    options.heartbeat_interval = heartbeat;
    return std::make_unique<StoreClient>(server_.address(), "", soon(), options);
  }
  static Deadline soon() { return Deadline::after(20s); }

  const TemporaryFolder folder_;
  StoreServer server_{SocketAddress::unix_socket(folder_ / "store"), "", {400ms}};
  std::unique_ptr<StoreClient> watcher_ = client();
};

TEST_F(Will, IsPushedWhenTheConnectionEnds) {
  auto lost = client();
  lost->set_will("news", "b: ", 1h);
  EXPECT_EQ(lost->push("news", "hello"), 1);
  lost.reset();
  EXPECT_EQ(watcher_->get("news/2", soon()), "b: connection closed");
}

TEST_F(Will, IsForgottenAfterAGoodbye) {
  auto one = client();
  one->set_will("news", "b: ", 1h);
  one->finish(soon());
  auto other = client();
  other->set_will("news", "c: ", 1h);
  other.reset();
  EXPECT_EQ(watcher_->get("news/1", soon()), "c: connection closed");
}

TEST_F(Will, IsPushedAfterSilence) {
  auto silent = client(1h);
  silent->set_will("news", "b: ", 200ms);
  EXPECT_EQ(watcher_->get("news/1", soon()), "b: not heard of for 0.2 s");
  silent.reset();
  watcher_->push("news", "next");
  EXPECT_EQ(watcher_->get("news/2", soon()), "next") << "a will is carried out once";
}

TEST_F(Will, CountsHeartbeatsAsSignsOfLife) {
  auto alive = client(20ms);
  alive->set_will("news", "alive", 300ms);
  auto silent = client(1h);
  silent->set_will("news", "silent", 600ms);
  EXPECT_EQ(watcher_->get("news/1", soon()).substr(0, 6), "silent");
}

TEST(ForgetGenerations, RemovesWhatOldRanksLeft) {
  const TemporaryFolder folder;
  StoreServer server(SocketAddress::unix_socket(folder / "store"), "");
  StoreClient client(server.address(), "", Deadline::after(20s));
  for (const char* key : {"g0.r0/x", "g1.r0/x", "g10.r0/x", "other"}) client.set(key, "1");
  server.mark_lost(1, {0, "host", "killed"});
  server.forget_generations_before(2);
  EXPECT_EQ(client.try_get("g0.r0/x"), std::nullopt);
  EXPECT_EQ(client.try_get("g1.r0/x"), std::nullopt);
  EXPECT_EQ(client.try_get("g10.r0/x"), "1");
  EXPECT_EQ(client.try_get("other"), "1");
  EXPECT_TRUE(server.lost_ranks().empty());
}

}  // namespace
}  // namespace lockstep
