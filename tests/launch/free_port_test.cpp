#include "lockstep/launch/nodes/free_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Whether a server on all addresses of this host gets the port.
bool can_serve(std::uint16_t port, bool reuses_addresses) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (reuses_addresses) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
         ::listen(fd.get(), 1) == 0;
}

TEST(HeldPortTest, IsForWhoAsksForItByNumber) {
  const HeldPort port;
  EXPECT_TRUE(can_serve(port.number(), true));
  EXPECT_FALSE(can_serve(port.number(), false));
  EXPECT_NO_THROW(check_port_is_free(port.number()));
}

TEST(HeldPortTest, IsGivenToNobodyElse) {
  std::vector<HeldPort> ports(200);
  std::set<std::uint16_t> numbers;
  for (const HeldPort& port : ports) numbers.insert(port.number());
  EXPECT_EQ(numbers.size(), ports.size());
}

TEST(HeldPortTest, IsFreeAfterwards) {
  const std::uint16_t port = free_port();
  EXPECT_TRUE(can_serve(port, true));
}

}  // namespace
}  // namespace lockstep
