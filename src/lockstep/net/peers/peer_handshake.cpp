#include "lockstep/net/peers/peer_handshake.h"

#include <algorithm>
#include <utility>

#include "lockstep/net/hmac.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {
namespace {

constexpr std::string_view kPeerMagic = "LOCKPEER";
constexpr std::size_t kPeerNonceBytes = 32;
constexpr std::size_t kPeerHelloBytes = 8 + 4 + 3 * 4 + 4 + kPeerNonceBytes;
static_assert(kPeerHelloBytes <= AcceptorHandshake::kLongestMessage);

std::string dialer_proof(const std::string& key, const std::string& transcript) {
  return hmac_sha256(key, {"lockstep peers: dialer knows the key", transcript});
}

std::string acceptor_proof(const std::string& key, const std::string& transcript) {
  return hmac_sha256(key, {"lockstep peers: acceptor knows the key", transcript});
}

constexpr std::uint32_t kPeerAsksForEncryption = 1;

// Both sides' wishes and a nonce end their first messages.
void write_wishes(WireWriter& message, bool asks_for_encryption) {
  message.u32(asks_for_encryption ? kPeerAsksForEncryption : 0);
  message.raw(random_bytes(kPeerNonceBytes));
}

bool peer_asks(std::string_view transcript, std::size_t end_of_message) {
  return WireReader(transcript.substr(end_of_message - kPeerNonceBytes - 4)).u32() == kPeerAsksForEncryption;
}

// The dialer's keys; the acceptor's are the same, the other way round.
std::optional<StreamKeys> keys_of(const std::string& key, const std::string& transcript) {
  if (!peer_asks(transcript, kPeerHelloBytes) && !peer_asks(transcript, transcript.size())) return std::nullopt;
  return StreamKeys{hmac_sha256(key, {"lockstep peers: key of dialer to acceptor", transcript}),
                    hmac_sha256(key, {"lockstep peers: key of acceptor to dialer", transcript})};
}

}  // namespace

std::string peer_key(const std::string& job_key, const std::string& group, const std::string& invitation) {
  WireWriter parts;  // lengths first, so that no two pairs of parts are written alike
  parts.text(group);
  parts.text(invitation);
  return hmac_sha256(job_key, {"lockstep peers: key of a group's rank", parts.bytes()});
}

std::size_t AcceptorHandshake::wanted_bytes() const {
  if (state_ == State::Done) return 0;
  return (state_ == State::AwaitHello ? kPeerHelloBytes : kDigestBytes) - received_.size();
}

std::optional<std::string> AcceptorHandshake::take(std::string_view bytes) {
  received_ += bytes;
  if (state_ == State::AwaitHello) {
    const std::size_t seen = std::min(received_.size(), kPeerMagic.size());
    if (std::string_view(received_).substr(0, seen) != kPeerMagic.substr(0, seen)) return std::nullopt;
  }
  if (wanted_bytes() > 0) return std::string();
  const std::string message = std::exchange(received_, std::string());
  if (state_ == State::AwaitHello) {
    WireReader reader(std::string_view(message).substr(kPeerMagic.size()));
    const std::uint32_t version = reader.u32();
    name_.from = reader.u32();
    name_.to = reader.u32();
    name_.lane = reader.u32();
    if (version != kPeerProtocolVersion || name_.to != rank_) return std::nullopt;
    WireWriter answer;
    write_wishes(answer, asks_for_encryption_);
    transcript_ = message + answer.bytes();
    state_ = State::AwaitProof;
    return answer.bytes();
  }
  if (!equal_in_constant_time(message, dialer_proof(key_, transcript_))) return std::nullopt;
  state_ = State::Done;
  return acceptor_proof(key_, transcript_);
}

std::optional<StreamKeys> AcceptorHandshake::keys() const {
  auto keys = keys_of(key_, transcript_);
  if (keys) std::swap(keys->send, keys->receive);
  return keys;
}

DialerHandshake::DialerHandshake(std::string key, const PeerConnectionName& name, bool asks_for_encryption)
    : key_(std::move(key)) {
  WireWriter hello;
  hello.raw(kPeerMagic);
  hello.u32(kPeerProtocolVersion);
  hello.u32(name.from);
  hello.u32(name.to);
  hello.u32(name.lane);
  write_wishes(hello, asks_for_encryption);
  transcript_ = hello.bytes();
}

std::string DialerHandshake::proof(std::string_view answer) {
  transcript_ += answer;
  return dialer_proof(key_, transcript_);
}

bool DialerHandshake::accepts(std::string_view proof) const {
  return equal_in_constant_time(proof, acceptor_proof(key_, transcript_));
}

std::optional<StreamKeys> DialerHandshake::keys() const { return keys_of(key_, transcript_); }

Dialed prove_to_peer(int fd, const std::string& key, const PeerConnectionName& name, Deadline deadline) {
  DialerHandshake handshake(key, name, asks_for_encryption(fd));
  if (!send_all(fd, handshake.hello(), deadline)) return {DialOutcome::Closed, {}};
  const Received answer = receive_exactly(fd, DialerHandshake::kAnswerBytes, deadline);
  if (answer.timed_out) return {DialOutcome::TimedOut, {}};
  if (answer.closed || !send_all(fd, handshake.proof(answer.bytes), deadline)) return {DialOutcome::Closed, {}};
  const Received proof = receive_exactly(fd, kDigestBytes, deadline);
  if (proof.timed_out) return {DialOutcome::TimedOut, {}};
  if (proof.closed) return {DialOutcome::Closed, {}};
  if (!handshake.accepts(proof.bytes)) return {DialOutcome::Impostor, {}};
  return {DialOutcome::Proven, handshake.keys()};
}

}  // namespace lockstep
