#include "lockstep/net/store/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/net/hmac.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "LOCKSTEP";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kHelloBytes = 8 + 4 + kNonceBytes;
// The version has the lower half of its 32 bits, wishes have the upper one: so sides of different versions, whose
// wishes may differ, can read each other's.
constexpr std::uint32_t kVersionBits = 0xffff;
constexpr std::uint32_t kAsksForEncryption = 0x10000;

std::string hello(bool asks_for_encryption) {
  WireWriter message;
  message.raw(kMagic);
  message.u32(kStoreProtocolVersion | (asks_for_encryption ? kAsksForEncryption : 0));
  message.raw(random_bytes(kNonceBytes));
  return message.bytes();
}

bool begins_like_magic(std::string_view bytes) {
  const std::size_t count = std::min(bytes.size(), kMagic.size());
  return bytes.substr(0, count) == kMagic.substr(0, count);
}

std::uint32_t version_and_wishes(std::string_view hello_bytes) {
  return WireReader(hello_bytes.substr(kMagic.size())).u32();
}

unsigned version_of(std::string_view hello_bytes) { return version_and_wishes(hello_bytes) & kVersionBits; }

bool asks(std::string_view hello_bytes) { return (version_and_wishes(hello_bytes) & kAsksForEncryption) != 0; }

// Both hellos, with their nonces, and the purpose: a digest cannot be reused for another purpose, side or connection.
std::string digest_for(const std::string& secret, std::string_view purpose, const std::string& hellos) {
  return hmac_sha256("lockstep job secret:" + secret, {purpose, hellos});
}

std::string client_proof(const std::string& secret, const std::string& hellos) {
  return digest_for(secret, "lockstep store: client knows the secret", hellos);
}

std::string server_proof(const std::string& secret, const std::string& hellos) {
  return digest_for(secret, "lockstep store: server knows the secret", hellos);
}

SessionKeys session_keys(const std::string& secret, const std::string& hellos) {
  return {digest_for(secret, "lockstep store: key of client to server", hellos),
          digest_for(secret, "lockstep store: key of server to client", hellos),
          asks(hellos) || asks(std::string_view(hellos).substr(kHelloBytes))};
}

}  // namespace

std::size_t ServerHandshake::wanted_bytes() const {
  if (state_ == State::AwaitHello) return kHelloBytes - received_.size();
  return state_ == State::AwaitProof ? kDigestBytes - received_.size() : 0;
}

std::string ServerHandshake::take(std::string_view bytes) {
  received_ += bytes;
  if (state_ == State::AwaitHello && !begins_like_magic(received_)) throw WireError("does not speak to a store");
  if (wanted_bytes() > 0) return {};
  const std::string message = std::exchange(received_, std::string());
  if (state_ == State::AwaitHello) {
    const std::string answer = hello(asks_for_encryption_);
    hellos_ = message + answer;
    // The hello is sent whatever the client's version is, so that the client learns the server's.
    state_ = State::AwaitProof;
    return answer;
  }
  if (!equal_in_constant_time(message, client_proof(secret_, hellos_))) {
    throw WireError("does not know the secret");
  }
  keys_ = session_keys(secret_, hellos_);
  state_ = State::Done;
  return server_proof(secret_, hellos_);
}

ClientHandshake prove_to_server(int fd, const std::string& secret, Deadline deadline) {
  using Outcome = ClientHandshake::Outcome;
  const std::string greeting = hello(asks_for_encryption(fd));
  if (!send_all(fd, greeting, deadline)) return {Outcome::ClosedEarly, {}, {}};

  const Received answer = receive_exactly(fd, kHelloBytes, deadline);
  if (!begins_like_magic(answer.bytes)) return {Outcome::NotAStore, {}, {}};
  if (answer.timed_out) return {Outcome::TimedOut, {}, {}};
  if (answer.closed) return {Outcome::ClosedEarly, {}, {}};
  if (version_of(answer.bytes) != kStoreProtocolVersion) {
    return {Outcome::OtherVersion, {}, fmt::format("{}", version_of(answer.bytes))};
  }
  const std::string hellos = greeting + answer.bytes;

  if (!send_all(fd, client_proof(secret, hellos), deadline)) return {Outcome::ClosedAtProof, {}, {}};
  const Received proof = receive_exactly(fd, kDigestBytes, deadline);
  if (proof.timed_out) return {Outcome::TimedOut, {}, {}};
  if (proof.closed) return {Outcome::ClosedAtProof, {}, {}};
  if (!equal_in_constant_time(proof.bytes, server_proof(secret, hellos))) {
    return {Outcome::WrongServer, {}, {}};
  }
  return {Outcome::Proven, session_keys(secret, hellos), {}};
}

}  // namespace lockstep
