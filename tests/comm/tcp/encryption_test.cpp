// A group over engine tcp sends tensors that nobody on the network can read, if encryption is asked for.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/mesh/bring_up/strangers.h"
#include "tests/support/ranks.h"
#include "tests/support/wiretap.h"

namespace lockstep {
namespace {

using testing::Wiretap;

class TcpEncryption : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* const before = ::getenv(kVariable)) before_ = before;
  }
  void TearDown() override { before_.empty() ? ::unsetenv(kVariable) : ::setenv(kVariable, before_.c_str(), 1); }
  static constexpr const char* kVariable = "LOCKSTEP_ENCRYPT";

 private:
  std::string before_;
};

TEST_F(TcpEncryption, HidesSmallAndLargeTensors) {
  const std::string text = "these bytes are in a tensor.....";
  for (const char* const encrypt : {"0", "1"}) {
    ::setenv(kVariable, encrypt, 1);
    for (const std::int64_t copies : {2, 100'000}) {  // a packet, and messages of megabytes
      const Wiretap tap;
      if (!tap) GTEST_SKIP() << "no packet socket without CAP_NET_RAW";
      run_ranks_as_threads(2, [&](const Membership& membership) {
        const auto group = make_communicator("tcp", membership);
        std::string bytes;
        for (std::int64_t i = 0; i < copies; ++i) bytes += text;
        at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
        if (membership.rank == 0) std::copy(bytes.begin(), bytes.end(), tensor.data_ptr<std::uint8_t>());
        group->broadcast(tensor, 0);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), tensor.data_ptr<std::uint8_t>()));
      });
      EXPECT_EQ(tap.hears(text), std::string(encrypt) == "0") << copies;
    }
  }
}

// The environment is the same on all ranks of this test, and need not be: one side's wish is enough.
TEST_F(TcpEncryption, IsRefusedToEnginesThatHaveNone) {
  ::setenv(kVariable, "1", 1);
  Membership between_hosts;
  between_hosts.rank = 1;
  between_hosts.world_size = 2;
  between_hosts.peers.resize(2);
  between_hosts.peers[0].host_id = "one/1";
  between_hosts.peers[1].host_id = "two/2";
  try {
    warn_of_strangers(between_hosts, "gloo", "10.0.0.1");
    FAIL() << "the group would send in clear";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("engine gloo has none"), std::string::npos) << error.what();
  }
  between_hosts.peers[1] = between_hosts.peers[0];
  warn_of_strangers(between_hosts, "gloo", "127.0.0.1");  // one host: nothing leaves it
}

}  // namespace
}  // namespace lockstep
