#include "lockstep/net/peers/peer_handshake.h"

#include <algorithm>
#include <utility>

#include "lockstep/net/hmac.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {
namespace {

constexpr std::string_view kPeerMagic = "LOCKPEER";
constexpr std::size_t kPeerNonceBytes = DialerHandshake::kNonceBytes;
constexpr std::size_t kPeerHelloBytes = 8 + 4 + 3 * 4 + kPeerNonceBytes;
static_assert(kPeerHelloBytes <= AcceptorHandshake::kLongestMessage);

std::string dialer_proof(const std::string& key, const std::string& transcript) {
  return hmac_sha256(key, {"lockstep peers: dialer knows the key", transcript});
}

std::string acceptor_proof(const std::string& key, const std::string& transcript) {
  return hmac_sha256(key, {"lockstep peers: acceptor knows the key", transcript});
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
    const std::string nonce = random_bytes(kPeerNonceBytes);
    transcript_ = message + nonce;
    state_ = State::AwaitProof;
    return nonce;
  }
  if (!equal_in_constant_time(message, dialer_proof(key_, transcript_))) return std::nullopt;
  state_ = State::Done;
  return acceptor_proof(key_, transcript_);
}

DialerHandshake::DialerHandshake(std::string key, const PeerConnectionName& name) : key_(std::move(key)) {
  WireWriter hello;
  hello.raw(kPeerMagic);
  hello.u32(kPeerProtocolVersion);
  hello.u32(name.from);
  hello.u32(name.to);
  hello.u32(name.lane);
  hello.raw(random_bytes(kNonceBytes));
  transcript_ = hello.bytes();
}

std::string DialerHandshake::proof(std::string_view nonce) {
  transcript_ += nonce;
  return dialer_proof(key_, transcript_);
}

bool DialerHandshake::accepts(std::string_view proof) const {
  return equal_in_constant_time(proof, acceptor_proof(key_, transcript_));
}

DialOutcome prove_to_peer(int fd, const std::string& key, const PeerConnectionName& name, Deadline deadline) {
  DialerHandshake handshake(key, name);
  if (!send_all(fd, handshake.hello(), deadline)) return DialOutcome::Closed;
  const Received nonce = receive_exactly(fd, DialerHandshake::kNonceBytes, deadline);
  if (nonce.timed_out) return DialOutcome::TimedOut;
  if (nonce.closed || !send_all(fd, handshake.proof(nonce.bytes), deadline)) return DialOutcome::Closed;
  const Received proof = receive_exactly(fd, kDigestBytes, deadline);
  if (proof.timed_out) return DialOutcome::TimedOut;
  if (proof.closed) return DialOutcome::Closed;
  return handshake.accepts(proof.bytes) ? DialOutcome::Proven : DialOutcome::Impostor;
}

}  // namespace lockstep
