#include "lockstep/net/sockets/socket_address.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/net/net_fixtures.h"

namespace lockstep {
namespace {

TEST(SocketAddressTest, ReadsWhatItWrites) {
  for (const char* text : {"unix:/run/job/store", "tcp:127.0.0.1:29500", "tcp:[::1]:0", "tcp:node-3.cluster:65535"}) {
    EXPECT_EQ(SocketAddress::parse(text).text(), text);
  }
  const SocketAddress v6 = SocketAddress::parse("tcp:[fe80::1]:80");
  EXPECT_EQ(v6.host, "fe80::1");
  EXPECT_EQ(v6.port, 80);
  EXPECT_EQ(v6.kind, SocketAddress::Kind::Tcp);
}

class BadSocketAddress : public ::testing::TestWithParam<const char*> {};

TEST_P(BadSocketAddress, IsAnErrorThatShowsTheForms) {
  const std::string text = testing::error_of([] { SocketAddress::parse(GetParam()); });
  EXPECT_NE(text.find(GetParam()), std::string::npos) << text;
  EXPECT_NE(text.find("tcp:host:port"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Table, BadSocketAddress,
                         ::testing::Values("", "localhost:29500", "unix:", "unix:relative", "tcp:", "tcp:host",
                                           "tcp::80", "tcp:host:", "tcp:host:65536", "tcp:host:-1", "tcp:host:8x",
                                           "tcp:::1:80", "tcp:[]:80", "udp:host:80"));

}  // namespace
}  // namespace lockstep
