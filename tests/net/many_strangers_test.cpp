// A store's member among strangers by the thousand.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/processor/process_memory.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/store_client.h"
#include "lockstep/net/store/wire.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/sanitizers.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using testing::kSecret;
using testing::patience;

// What strangers send: nothing, too little, a hello without a proof, one with a wrong proof, another protocol.
std::vector<std::string> strangers_bytes() {
  WireWriter hello;
  hello.raw("LOCKSTEP");
  hello.u32(1);
  hello.raw(std::string(32, 'n'));
  return {"",
          "L",
          hello.bytes(),
          hello.bytes() + std::string(32, 'p'),
          "GET / HTTP/1.1\r\n\r\n",
          std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)};
}

// As many are held open as the limit of descriptors allows.
TEST(ManyStrangers, CostAMemberOfTheStoreNothing) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const std::size_t held_at_once = std::min<std::size_t>(500, files.rlim_cur / 4);
  const int number = test_size(1'000, 10'000);
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  StoreClient member(server.address(), kSecret, patience());
  const std::int64_t before = process_memory().resident;
  std::atomic<int> connected{0};
  std::atomic<bool> ended{false};
  std::thread strangers([&] {
    const std::vector<std::string> kinds = strangers_bytes();
    std::deque<UniqueFd> held;
    for (const Deadline limit = patience(); connected < number && !limit.passed();) {
      Connected stranger = connect_once(server.address(), false, patience());
      if (!stranger.fd) continue;
      const std::size_t kind = static_cast<std::size_t>(connected++) % kinds.size();
      send_all(stranger.fd.get(), kinds[kind], Deadline::after(std::chrono::milliseconds(0)));
      held.push_back(std::move(stranger.fd));
      if (held.size() > held_at_once) held.pop_front();
    }
    ended = true;
  });
  std::int64_t calls = 0;
  while (!ended) EXPECT_EQ(member.add("calls", 1), ++calls);
  strangers.join();
  EXPECT_EQ(connected, number);
  StoreClient late(server.address(), kSecret, patience());
  EXPECT_EQ(late.add("calls", 1), ++calls);
  if (!kAddressSanitizer) {  // which keeps freed memory for a while
    EXPECT_LE(process_memory().resident, before + 1600L * number);
  }
}

}  // namespace
}  // namespace lockstep
