// When a connection is encrypted, and that no bytes of an encrypted job can be read on the network.
#include "lockstep/net/sockets/encryption.h"

#include <gtest/gtest.h>

#include <string>

#include "lockstep/net/server/store_server.h"
#include "lockstep/net/sockets/resolve.h"
#include "lockstep/net/store/store_client.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/wiretap.h"

namespace lockstep {
namespace {

using testing::error_of;
using testing::kSecret;
using testing::patience;
using testing::ScopedVariable;
using testing::Wiretap;

IpAddress address_of(const std::string& numeric) { return resolve(numeric, 1, patience()).addresses.at(0); }

struct AddressCase {
  const char* address;
  bool asks;
  friend std::ostream& operator<<(std::ostream& out, const AddressCase& each) { return out << each.address; }
};

class EncryptionBeyondPrivateAddresses : public ::testing::TestWithParam<AddressCase> {};

TEST_P(EncryptionBeyondPrivateAddresses, IsAskedForWithoutAWord) {
  const IpAddress address = address_of(GetParam().address);
  EXPECT_EQ(asks_for_encryption(address), GetParam().asks);
  const ScopedVariable always("LOCKSTEP_ENCRYPT", "1");
  EXPECT_TRUE(asks_for_encryption(address));
  const ScopedVariable never("LOCKSTEP_ENCRYPT", "0");
  EXPECT_FALSE(asks_for_encryption(address));
}

// The first and last addresses of each private range, and their neighbours.
INSTANTIATE_TEST_SUITE_P(Addresses, EncryptionBeyondPrivateAddresses,
                         ::testing::Values(AddressCase{"9.255.255.255", true}, AddressCase{"10.0.0.0", false},
                                           AddressCase{"10.255.255.255", false}, AddressCase{"11.0.0.0", true},
                                           AddressCase{"100.63.255.255", true}, AddressCase{"100.64.0.0", false},
                                           AddressCase{"100.127.255.255", false}, AddressCase{"100.128.0.0", true},
                                           AddressCase{"127.0.0.1", false}, AddressCase{"128.0.0.1", true},
                                           AddressCase{"169.253.255.255", true}, AddressCase{"169.254.1.1", false},
                                           AddressCase{"172.15.255.255", true}, AddressCase{"172.16.0.0", false},
                                           AddressCase{"172.31.255.255", false}, AddressCase{"172.32.0.0", true},
                                           AddressCase{"192.167.255.255", true}, AddressCase{"192.168.0.0", false},
                                           AddressCase{"192.169.0.0", true}, AddressCase{"8.8.8.8", true},
                                           AddressCase{"::1", false}, AddressCase{"fe80::1", false},
                                           AddressCase{"fc00::1", false}, AddressCase{"fdff::1", false},
                                           AddressCase{"fe00::1", true}, AddressCase{"2001:db8::1", true},
                                           AddressCase{"::ffff:192.168.1.1", false},
                                           AddressCase{"::ffff:8.8.8.8", true}));

TEST(Encryption, RefusesAVariableThatIsNoSwitch) {
  const ScopedVariable unclear("LOCKSTEP_ENCRYPT", "maybe");
  const std::string text = error_of([] { encryption_is_demanded(); });
  EXPECT_NE(text.find("LOCKSTEP_ENCRYPT"), std::string::npos) << text;
}

TEST(Encryption, IsRefusedWithoutASecret) {
  const ScopedVariable always("LOCKSTEP_ENCRYPT", "1");
  const std::string served = error_of([] { const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), ""); });
  EXPECT_NE(served.find("no secret to derive keys from"), std::string::npos) << served;
  const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  const std::string asked = error_of([&] { const StoreClient client(server.address(), "", patience()); });
  EXPECT_NE(asked.find("no secret to derive keys from"), std::string::npos) << asked;
}

TEST(Encryption, HidesWhatTheStoreIsTold) {
  for (const char* const encrypt : {"0", "1"}) {
    const ScopedVariable variable("LOCKSTEP_ENCRYPT", encrypt);
    const Wiretap tap;
    if (!tap) GTEST_SKIP() << "no packet socket without CAP_NET_RAW";
    const StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
    StoreClient client(server.address(), kSecret, patience());
    client.set("key of words", "a value that anybody can read");
    EXPECT_EQ(client.get("key of words", patience()), "a value that anybody can read");
    EXPECT_EQ(tap.hears("a value that anybody can read"), std::string(encrypt) == "0");
  }
}

}  // namespace
}  // namespace lockstep
