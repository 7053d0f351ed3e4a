#include "lockstep/net/peers/peer_handshake.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "lockstep/net/hmac.h"
#include "lockstep/net/peers/job_key.h"
#include "lockstep/net/store/memory_store.h"
#include "lockstep/net/store/prefix_store.h"
#include "tests/net/net_fixtures.h"
#include "tests/net/peer_bytes.h"

namespace lockstep {
namespace {

using testing::kSecret;

const std::string kKey = peer_key(job_key_of(kSecret), "default", "an invitation");
constexpr PeerConnectionName kName{2, 1, 0};

// What the dialer sends and gets, if the acceptor lets it in; nothing otherwise.
std::optional<std::string> last_answer(AcceptorHandshake& acceptor, DialerHandshake& dialer) {
  const auto answer = acceptor.take(dialer.hello());
  if (!answer) return std::nullopt;
  return acceptor.take(dialer.proof(*answer));
}

TEST(PeerHandshake, ProvesTheKeyOnBothSides) {
  AcceptorHandshake acceptor(kKey, 1);
  DialerHandshake dialer(kKey, kName);
  const auto proof = last_answer(acceptor, dialer);
  ASSERT_TRUE(proof);
  EXPECT_TRUE(dialer.accepts(*proof));
  ASSERT_TRUE(acceptor.done());
  EXPECT_EQ(acceptor.wanted_bytes(), 0U);
  EXPECT_EQ(acceptor.name().from, 2U);
  EXPECT_EQ(acceptor.name().to, 1U);
  EXPECT_EQ(acceptor.name().lane, 0U);
}

TEST(PeerHandshake, TakesBytesOneByOne) {
  AcceptorHandshake acceptor(kKey, 1);
  DialerHandshake dialer(kKey, kName);
  std::string answer;
  for (const char byte : dialer.hello()) answer += acceptor.take(std::string(1, byte)).value();
  std::string proof;
  for (const char byte : dialer.proof(answer)) proof += acceptor.take(std::string(1, byte)).value();
  EXPECT_TRUE(dialer.accepts(proof));
}

struct OtherKey {
  const char* name;
  std::string key;
  friend std::ostream& operator<<(std::ostream& out, const OtherKey& other) { return out << other.name; }
};

class RefusedKey : public ::testing::TestWithParam<OtherKey> {};

TEST_P(RefusedKey, GetsARandomNumberAndNothingElse) {
  AcceptorHandshake acceptor(kKey, 1);
  DialerHandshake dialer(GetParam().key, kName);
  const auto answer = acceptor.take(dialer.hello());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->size(), DialerHandshake::kAnswerBytes);
  EXPECT_FALSE(acceptor.take(dialer.proof(*answer)));
  EXPECT_FALSE(acceptor.done());
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedKey,
    ::testing::Values(
        OtherKey{"no_secret", peer_key(job_key_of(""), "default", "an invitation")},
        OtherKey{"another_jobs_secret", peer_key(job_key_of("the secret of another job"), "default", "an invitation")},
        OtherKey{"another_group", peer_key(job_key_of(kSecret), "default/a", "an invitation")},
        OtherKey{"another_generation", peer_key(job_key_of(kSecret), "default", "an older invitation")},
        OtherKey{"group_and_invitation_shifted", peer_key(job_key_of(kSecret), "defaultan", " invitation")}),
    [](const auto& test) { return test.param.name; });

TEST(PeerHandshake, RefusesAHelloForAnotherRank) {
  AcceptorHandshake acceptor(kKey, 3);
  EXPECT_FALSE(acceptor.take(DialerHandshake(kKey, kName).hello()));
}

TEST(PeerHandshake, RefusesOtherProtocolsAtTheFirstWrongByte) {
  EXPECT_FALSE(AcceptorHandshake(kKey, 1).take("X"));
  EXPECT_FALSE(AcceptorHandshake(kKey, 1).take("GET / HTTP/1.1"));
  EXPECT_FALSE(AcceptorHandshake(kKey, 1).take("LOCKSTEP"));  // a store's hello
  EXPECT_TRUE(AcceptorHandshake(kKey, 1).take("LOCK"));
}

TEST(PeerHandshake, RefusesARecording) {
  AcceptorHandshake first(kKey, 1);
  DialerHandshake dialer(kKey, kName);
  const std::string hello = dialer.hello();
  const std::string proof = dialer.proof(first.take(hello).value());
  ASSERT_TRUE(first.take(proof));
  AcceptorHandshake second(kKey, 1);
  ASSERT_TRUE(second.take(hello));
  EXPECT_FALSE(second.take(proof));
}

// A stranger in the middle cannot give a proof of one connection to another.
TEST(PeerHandshake, RefusesAProofOfAnotherLaneOrRank) {
  for (const PeerConnectionName other : {PeerConnectionName{2, 1, 1}, PeerConnectionName{3, 1, 0}}) {
    AcceptorHandshake acceptor(kKey, 1);
    DialerHandshake honest(kKey, kName);
    DialerHandshake renamed(kKey, other);
    const auto answer = acceptor.take(renamed.hello());
    EXPECT_FALSE(acceptor.take(honest.proof(answer.value())));
  }
}

// A hello and a proof of another key, changed in up to three bytes and cut anywhere.
TEST(PeerHandshake, LetsNoBytesInThatDoNotKnowTheKey) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = std::string(1, static_cast<char>(below(256))) + DialerHandshake(kKey, kName).hello() +
                        std::string(kDigestBytes, static_cast<char>(below(256)));
    for (std::size_t change = below(4); change > 0; --change)
      bytes[below(bytes.size())] = static_cast<char>(below(256));
    bytes.resize(below(bytes.size() + 1));
    testing::take_peer_bytes(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

TEST(PeerHandshake, DialerRefusesAnEchoOfItsProof) {
  DialerHandshake dialer(kKey, kName);
  EXPECT_FALSE(dialer.accepts(dialer.proof(std::string(DialerHandshake::kAnswerBytes, 'n'))));
  EXPECT_FALSE(dialer.accepts(std::string(kDigestBytes, '\0')));
  EXPECT_FALSE(dialer.accepts(""));
}

// Whether the acceptor and the dialer ask for encryption.
class PeerWishes : public ::testing::TestWithParam<std::pair<bool, bool>> {};

TEST_P(PeerWishes, EncryptIfOneSideAsksWithKeysOfThisConnectionAndDirection) {
  const auto [acceptor_asks, dialer_asks] = GetParam();
  std::set<std::string> keys;
  for (int connection = 0; connection < 2; ++connection) {
    AcceptorHandshake acceptor(kKey, 1, acceptor_asks);
    DialerHandshake dialer(kKey, kName, dialer_asks);
    const auto proof = last_answer(acceptor, dialer);
    ASSERT_TRUE(proof && dialer.accepts(*proof));
    ASSERT_EQ(acceptor.keys().has_value(), acceptor_asks || dialer_asks);
    ASSERT_EQ(dialer.keys().has_value(), acceptor_asks || dialer_asks);
    if (!dialer.keys()) continue;
    EXPECT_EQ(dialer.keys()->send, acceptor.keys()->receive);
    EXPECT_EQ(dialer.keys()->receive, acceptor.keys()->send);
    keys.insert({dialer.keys()->send, dialer.keys()->receive});
    EXPECT_EQ(keys.size(), static_cast<std::size_t>(2 + 2 * connection)) << "a key was used twice";
  }
}

INSTANTIATE_TEST_SUITE_P(Sides, PeerWishes,
                         ::testing::Values(std::pair{false, false}, std::pair{true, false}, std::pair{false, true},
                                           std::pair{true, true}));

// Somebody between the two changes the only wish for encryption.
TEST(PeerHandshake, NobodyCanTakeBackAWishOnTheWay) {
  constexpr std::size_t kWishOfHello = 8 + 4 + 12;
  AcceptorHandshake acceptor(kKey, 1);
  DialerHandshake asking(kKey, kName, true);
  std::string hello = asking.hello();
  ASSERT_EQ(hello[kWishOfHello], 1);
  hello[kWishOfHello] = 0;
  EXPECT_FALSE(acceptor.take(asking.proof(acceptor.take(hello).value())));

  AcceptorHandshake asked(kKey, 1, true);
  DialerHandshake dialer(kKey, kName);
  std::string answer = asked.take(dialer.hello()).value();
  ASSERT_EQ(answer[0], 1);
  answer[0] = 0;
  EXPECT_FALSE(asked.take(dialer.proof(answer)));
}

TEST(PeerHandshake, SecretsNeverMeetOtherKeysOfTheJob) {
  EXPECT_NE(job_key_of(kSecret), job_key_of(""));
  EXPECT_EQ(job_key_of(kSecret).find(kSecret), std::string::npos);
}

TEST(JobKey, PassesThroughPrefixes) {
  const auto store = std::make_shared<MemoryStore>();
  EXPECT_EQ(job_key(*store), job_key_of(""));
  EXPECT_EQ(job_key(PrefixStore(store, "group")), job_key_of(""));
}

}  // namespace
}  // namespace lockstep
