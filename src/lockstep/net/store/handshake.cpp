#include "lockstep/net/store/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/net/hmac.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "LOCKSTEP";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kHelloBytes = 8 + 4 + kNonceBytes;

std::string hello(const std::string& nonce) {
  WireWriter message;
  message.raw(kMagic);
  message.u32(kStoreProtocolVersion);
  message.raw(nonce);
  return message.bytes();
}

bool begins_like_magic(std::string_view bytes) {
  const std::size_t count = std::min(bytes.size(), kMagic.size());
  return bytes.substr(0, count) == kMagic.substr(0, count);
}

unsigned version_of(std::string_view hello_bytes) { return WireReader(hello_bytes.substr(kMagic.size())).u32(); }

std::string nonce_of(std::string_view hello_bytes) { return std::string(hello_bytes.substr(kMagic.size() + 4)); }

// Both nonces and the purpose: a digest cannot be reused for another purpose, side or connection.
std::string digest_for(const std::string& secret, std::string_view purpose, const std::string& client_nonce,
                       const std::string& server_nonce) {
  WireWriter version;
  version.u32(kStoreProtocolVersion);
  return hmac_sha256("lockstep job secret:" + secret, {purpose, version.bytes(), client_nonce, server_nonce});
}

std::string client_proof(const std::string& secret, const std::string& client_nonce, const std::string& server_nonce) {
  return digest_for(secret, "lockstep store: client knows the secret", client_nonce, server_nonce);
}

std::string server_proof(const std::string& secret, const std::string& client_nonce, const std::string& server_nonce) {
  return digest_for(secret, "lockstep store: server knows the secret", client_nonce, server_nonce);
}

SessionKeys session_keys(const std::string& secret, const std::string& client_nonce, const std::string& server_nonce) {
  return {digest_for(secret, "lockstep store: key of client to server", client_nonce, server_nonce),
          digest_for(secret, "lockstep store: key of server to client", client_nonce, server_nonce)};
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
    client_nonce_ = nonce_of(message);
    server_nonce_ = random_bytes(kNonceBytes);
    // The hello is sent whatever the client's version is, so that the client learns the server's.
    state_ = State::AwaitProof;
    return hello(server_nonce_);
  }
  if (!equal_in_constant_time(message, client_proof(secret_, client_nonce_, server_nonce_))) {
    throw WireError("does not know the secret");
  }
  keys_ = session_keys(secret_, client_nonce_, server_nonce_);
  state_ = State::Done;
  return server_proof(secret_, client_nonce_, server_nonce_);
}

ClientHandshake prove_to_server(int fd, const std::string& secret, Deadline deadline) {
  using Outcome = ClientHandshake::Outcome;
  const std::string client_nonce = random_bytes(kNonceBytes);
  if (!send_all(fd, hello(client_nonce), deadline)) return {Outcome::ClosedEarly, {}, {}};

  const Received answer = receive_exactly(fd, kHelloBytes, deadline);
  if (!begins_like_magic(answer.bytes)) return {Outcome::NotAStore, {}, {}};
  if (answer.timed_out) return {Outcome::TimedOut, {}, {}};
  if (answer.closed) return {Outcome::ClosedEarly, {}, {}};
  if (version_of(answer.bytes) != kStoreProtocolVersion) {
    return {Outcome::OtherVersion, {}, fmt::format("{}", version_of(answer.bytes))};
  }
  const std::string server_nonce = nonce_of(answer.bytes);

  if (!send_all(fd, client_proof(secret, client_nonce, server_nonce), deadline))
    return {Outcome::ClosedAtProof, {}, {}};
  const Received proof = receive_exactly(fd, kDigestBytes, deadline);
  if (proof.timed_out) return {Outcome::TimedOut, {}, {}};
  if (proof.closed) return {Outcome::ClosedAtProof, {}, {}};
  if (!equal_in_constant_time(proof.bytes, server_proof(secret, client_nonce, server_nonce))) {
    return {Outcome::WrongServer, {}, {}};
  }
  return {Outcome::Proven, session_keys(secret, client_nonce, server_nonce), {}};
}

}  // namespace lockstep
