// A group over engine tcp comes up, and works, among strangers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/factory.h"
#include "lockstep/net/peers/job_key.h"
#include "lockstep/net/peers/peer_handshake.h"
#include "lockstep/net/sockets/socket.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

Deadline no_wait() { return Deadline::after(std::chrono::milliseconds(0)); }
Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

// Where `rank` listens, from what it leaves in the store: "LENGTH tcp:HOST:PORT INVITATION...".
SocketAddress door_of(Store& store, int rank) {
  const std::string text = store.get("mesh/address/" + std::to_string(rank), soon());
  const std::size_t begin = text.find("tcp:");
  return SocketAddress::parse(text.substr(begin, text.find(' ', begin) - begin));
}

void sum_up_among(Communicator& group) {
  for (const std::int64_t count : {1, 1000, 3000001}) {
    at::Tensor tensor = at::full({count}, group.rank() + 1, at::kFloat);
    group.all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(6).all().item<bool>()) << count;
  }
}

// The last rank comes late, so strangers have the others' doors for themselves.
TEST(TcpStrangers, DoNotHoldUpAGroupThatForms) {
  std::atomic<bool> stopping{false};
  run_ranks_as_threads(3, [&](const Membership& membership) {
    std::vector<std::thread> strangers;
    if (membership.rank == 2) {
      for (int rank = 0; rank < 2; ++rank) {
        const SocketAddress door = door_of(*membership.store, rank);
        const auto attack = [&stopping, door, rank](int wanted) {
          const std::string wrong = peer_key(job_key_of("the secret of another job"), "default", "invitation");
          std::vector<UniqueFd> held;
          for (int i = 0; !stopping && (wanted < 0 || i < wanted); ++i) {
            Connected stranger;
            try {
              stranger = connect_once(door, false, soon());
            } catch (const std::exception&) {  // no descriptors left, as an attacker has it
              held.clear();
            }
            if (!stranger.fd) continue;
            const PeerConnectionName name{2, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(i) % 3};
            const DialerHandshake handshake(wrong, name);
            if (i % 4 == 1) send_all(stranger.fd.get(), std::string(48, '\xff'), no_wait());
            if (i % 4 == 2) send_all(stranger.fd.get(), handshake.hello() + std::string(32, 'p'), no_wait());
            if (i % 4 == 3) send_all(stranger.fd.get(), "LOCK", no_wait());
            held.push_back(std::move(stranger.fd));
            if (held.size() > 300) held.clear();
          }
        };
        attack(200);  // all of these are there before the rank
        strangers.emplace_back(attack, -1);
      }
    }
    const auto group = make_communicator("tcp", membership);
    stopping = true;
    for (std::thread& stranger : strangers) stranger.join();
    sum_up_among(*group);
  });
}

TEST(TcpStrangers, FindNoPortOfAGroupThatRuns) {
  run_ranks_as_threads(3, [](const Membership& membership) {
    const auto group = make_communicator("tcp", membership);
    group->barrier();  // all have connected to all
    for (int rank = 0; rank < 3; ++rank) {
      const SocketAddress door = door_of(*membership.store, rank);
      std::string failure;  // the loop's thread closes the door soon after
      for (const Deadline limit = soon(); failure.find("refused") == std::string::npos && !limit.passed();) {
        failure = connect_once(door, false, soon()).failure;
      }
      EXPECT_NE(failure.find("refused"), std::string::npos) << failure;
    }
    sum_up_among(*group);
  });
}

// Two groups of one job, of the same name in two generations, have other invitations: see also PeerHandshake.
TEST(TcpStrangers, AddressesHaveAFreshInvitationEach) {
  std::vector<std::string> addresses(4);
  for (const int generation : {0, 1}) {
    run_ranks_as_threads(2, [&](const Membership& membership) {
      const auto group = make_communicator("tcp", membership);
      const std::string text = membership.store->get("mesh/address/" + std::to_string(membership.rank), soon());
      const std::size_t invitation = text.find(' ', text.find("tcp:")) + 1;
      addresses[static_cast<std::size_t>(2 * generation + membership.rank)] = text.substr(invitation, 64);
      group->barrier();
    });
  }
  for (const std::string& address : addresses)
    EXPECT_EQ(address.find_first_not_of("0123456789abcdef"), std::string::npos);
  std::sort(addresses.begin(), addresses.end());
  EXPECT_EQ(std::unique(addresses.begin(), addresses.end()), addresses.end());
}

}  // namespace
}  // namespace lockstep
