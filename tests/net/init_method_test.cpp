#include "lockstep/net/environment/init_method.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/net/net_fixtures.h"

namespace lockstep {
namespace {

TEST(InitMethodTest, ReadsPyTorchsForms) {
  EXPECT_EQ(InitMethod::parse("env://").kind, InitMethod::Kind::Env);
  const InitMethod tcp = InitMethod::parse("tcp://[::1]:23456?rank=1&world_size=4");
  EXPECT_EQ(tcp.kind, InitMethod::Kind::Tcp);
  EXPECT_EQ(tcp.address.text(), "tcp:[::1]:23456");
  EXPECT_EQ(tcp.rank, 1);
  EXPECT_EQ(tcp.world_size, 4);
  const InitMethod file = InitMethod::parse("file:///mnt/nfs/meeting point?world_size=2");
  EXPECT_EQ(file.kind, InitMethod::Kind::File);
  EXPECT_EQ(file.path, "/mnt/nfs/meeting point");
  EXPECT_EQ(file.rank, std::nullopt);
  EXPECT_EQ(file.world_size, 2);
}

class BadInitMethod : public ::testing::TestWithParam<const char*> {};

TEST_P(BadInitMethod, IsAnErrorThatShowsTheForms) {
  const std::string text = testing::error_of([] { InitMethod::parse(GetParam()); });
  EXPECT_TRUE(text.find("tcp://host:port") != std::string::npos || text.find("tcp:host:port") != std::string::npos)
      << text;
}

INSTANTIATE_TEST_SUITE_P(Table, BadInitMethod,
                         ::testing::Values("", "env", "env://?rank=1", "tcp://host", "tcp://host:0", "tcp://host:x",
                                           "tcp://host:1?rank=one", "tcp://host:1?ranks=1", "file://relative",
                                           "file://", "file:///", "mpi://"));

}  // namespace
}  // namespace lockstep
