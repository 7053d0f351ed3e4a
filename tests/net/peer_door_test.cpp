// Strangers at the port where the ranks of a forming group connect.
#include "lockstep/net/peers/peer_door.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/processor/process_memory.h"
#include "lockstep/net/peers/job_key.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/sanitizers.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::kSecret;
using testing::patience;

const std::string kDoorKey = peer_key(job_key_of(kSecret), "default", "an invitation");
const std::string kWrongKey = peer_key(job_key_of("the secret of another job"), "default", "an invitation");

// A door that a thread serves until the test ends.
class ServedDoor {
 public:
  explicit ServedDoor(const PeerDoor::Limits& limits = {})
      : door_(SocketAddress::tcp("127.0.0.1", 0), kDoorKey, 1, patience(), limits), thread_([this] { serve(); }) {}
  ~ServedDoor() { stop(); }
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

  const SocketAddress& address() const { return door_.address(); }
  int guests() const { return guests_; }
  /// Once stopped.
  const PeerDoor& door() const { return door_; }

 private:
  void serve() {
    while (!stopping_) {
      pollfd waited{door_.fd(), POLLIN, 0};
      ::poll(&waited, 1, 20);
      for (PeerDoor::Guest& guest : door_.serve()) {
        kept_.push_back(std::move(guest.stream));
        ++guests_;
      }
    }
  }

  PeerDoor door_;
  std::vector<PeerStream> kept_;
  std::atomic<int> guests_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

UniqueFd connect_to(const ServedDoor& door) {
  Connected connected = connect_once(door.address(), false, patience());
  EXPECT_TRUE(connected.fd) << connected.failure;
  return std::move(connected.fd);
}

bool let_in(const ServedDoor& door, const std::string& key) {
  const UniqueFd fd = connect_to(door);
  return prove_to_peer(fd.get(), key, {2, 1, 0}, patience()).outcome == DialOutcome::Proven;
}

// As a rank does: with new attempts while strangers take its place.
bool let_in_at_last(const ServedDoor& door) {
  return testing::eventually([&] { return let_in(door, kDoorKey); });
}

struct StrangersBytes {
  const char* name;
  std::string sent;
  bool refused_at_once = true;
  friend std::ostream& operator<<(std::ostream& out, const StrangersBytes& bytes) { return out << bytes.name; }
};

class StrangerAtTheDoor : public ::testing::TestWithParam<StrangersBytes> {};

TEST_P(StrangerAtTheDoor, GetsAtMostANumberAndHoldsUpNobody) {
  ServedDoor door;
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(connect_to(door));
    send_all(strangers.back().get(), GetParam().sent, patience());
  }
  EXPECT_TRUE(let_in(door, kDoorKey));
  if (!GetParam().refused_at_once) return;
  for (const UniqueFd& fd : strangers) {
    const Received got = receive_exactly(fd.get(), 1000, patience());
    EXPECT_TRUE(got.closed);
    EXPECT_LE(got.bytes.size(), DialerHandshake::kAnswerBytes);
  }
  door.stop();
  EXPECT_EQ(door.guests(), 1);
  EXPECT_EQ(door.door().turned_away(), 20U);
  EXPECT_EQ(door.door().last_turned_away(), "127.0.0.1");
}

INSTANTIATE_TEST_SUITE_P(
    Table, StrangerAtTheDoor,
    ::testing::Values(StrangersBytes{"silent", "", false}, StrangersBytes{"half_a_hello", "LOCKPEER", false},
                      StrangersBytes{"http", "GET / HTTP/1.1\r\n\r\n"},
                      StrangersBytes{"gloos_header", std::string(48, '\x01')},
                      StrangersBytes{"hello_of_a_store", "LOCKSTEP" + std::string(36, '\0')},
                      StrangersBytes{"huge_numbers", "LOCKPEER" + std::string(80, '\xff')},
                      StrangersBytes{"hello_and_wrong_proof",
                                     DialerHandshake(kDoorKey, {2, 1, 0}).hello() + std::string(32, 'p')}),
    [](const auto& test) { return test.param.name; });

TEST(PeerDoor, RefusesTheSecretOfAnotherJob) {
  ServedDoor door;
  EXPECT_FALSE(let_in(door, kWrongKey));
  EXPECT_TRUE(let_in(door, kDoorKey));
}

TEST(PeerDoor, DoesNotCountAConnectionThatOnlyLooksWhetherItReaches) {
  ServedDoor door;
  connect_to(door).reset();
  EXPECT_TRUE(let_in(door, kDoorKey));
  door.stop();
  EXPECT_EQ(door.door().turned_away(), 0U);
}

TEST(PeerDoor, EndsASilentConnectionInTime) {
  PeerDoor::Limits limits;
  limits.handshake_timeout = milliseconds(50);
  ServedDoor door(limits);
  const UniqueFd silent = connect_to(door);
  EXPECT_TRUE(receive_exactly(silent.get(), 1, patience()).closed);
}

// Each byte comes within the time, and all of them do not.
TEST(PeerDoor, EndsASlowConnectionInTime) {
  PeerDoor::Limits limits;
  limits.handshake_timeout = milliseconds(100);
  ServedDoor door(limits);
  const UniqueFd slow = connect_to(door);
  EXPECT_TRUE(testing::eventually([&] {
    send_all(slow.get(), "L", patience());
    return receive_exactly(slow.get(), 1, Deadline::after(milliseconds(0))).closed;
  }));
}

// Connections are held open as long as the limit of descriptors allows; each is of another kind.
TEST(PeerDoor, LetsARankInAmongManyStrangers) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const std::size_t held_at_once = std::min<std::size_t>(500, files.rlim_cur / 4);
  const int number = test_size(1'000, 10'000);
  ServedDoor door;
  const std::int64_t before = process_memory().resident;
  std::atomic<bool> stopping{false};
  std::atomic<int> connected{0};
  std::thread strangers([&] {
    const DialerHandshake replayed(kDoorKey, {2, 1, 0});
    const std::vector<std::string> kinds{"", "L", replayed.hello() + std::string(32, 'p'), "GET / HTTP/1.1\r\n\r\n"};
    std::deque<UniqueFd> held;
    for (int i = 0; i < number && !stopping; ++i) {
      Connected stranger = connect_once(door.address(), false, patience());
      if (!stranger.fd) continue;
      send_all(stranger.fd.get(), kinds[static_cast<std::size_t>(i) % kinds.size()], Deadline::after(milliseconds(0)));
      held.push_back(std::move(stranger.fd));
      if (held.size() > held_at_once) held.pop_front();
      ++connected;
    }
  });
  for (int rank = 0; rank < 20; ++rank) EXPECT_TRUE(let_in_at_last(door)) << rank << " after " << connected;
  EXPECT_TRUE(testing::eventually([&] { return door.guests() >= 20; }));
  strangers.join();
  EXPECT_TRUE(let_in_at_last(door));
  EXPECT_EQ(connected, number);
  if (!kAddressSanitizer) {  // which keeps freed memory for a while
    EXPECT_LE(process_memory().resident, before + 1600L * number);
  }
}

}  // namespace
}  // namespace lockstep
