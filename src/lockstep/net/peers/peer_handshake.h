#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/net/peers/peer_stream.h"

namespace lockstep {

/// Version of the data plane's protocol; sides of different versions refuse each other.
constexpr unsigned kPeerProtocolVersion = 2;

/// A connection between two ranks of a group: the higher rank connects to the lower one, once for each lane.
struct PeerConnectionName {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t lane = 0;
};

/// The key that both ends of a connection must know.
/// @param job_key     see job_key.h
/// @param group       the group's name, with all groups that it is part of
/// @param invitation  fresh random bytes of the rank that accepts, which its peers read in the store: so no proof is
/// good in another generation, for another group of the same name, or at another rank
std::string peer_key(const std::string& job_key, const std::string& group, const std::string& invitation);

/// The accepting side of the proof that both ends know the key. It takes bytes as they arrive:
///
///     dialer   -> acceptor   hello: magic, version, from, to, lane, dialer's wishes, dialer's nonce
///     acceptor -> dialer     answer: acceptor's wishes, acceptor's nonce
///     dialer   -> acceptor   proof: HMAC(key, "dialer" label, hello, answer)
///     acceptor -> dialer     proof: HMAC(key, "acceptor" label, hello, answer)
///
/// The dialer proves first: a stranger gets a random number and nothing else. Both nonces are fresh, so a recorded
/// handshake is worth nothing; the names are part of the proof, so a proof is good for one connection alone. Wishes: 1
/// asks for encryption, and one side's is enough. They are part of the proof too, so nobody between the two can take
/// them back. Keys for encryption are HMACs of what the proofs cover, by labels of their own.
class AcceptorHandshake {
 public:
  AcceptorHandshake(std::string key, std::uint32_t rank, bool asks_for_encryption = false)
      : key_(std::move(key)), rank_(rank), asks_for_encryption_(asks_for_encryption) {}

  bool done() const { return state_ == State::Done; }
  /// How many bytes may be read now, at most kLongestMessage; later bytes do not belong to the handshake.
  std::size_t wanted_bytes() const;
  /// @param bytes  at most `wanted_bytes()`
  /// @return  the bytes to send now, which may be empty; nothing if the peer speaks another protocol, asks for another
  /// rank, or does not know the key: the connection must end
  std::optional<std::string> take(std::string_view bytes);
  /// Once done: what both sides have proven.
  const PeerConnectionName& name() const { return name_; }
  /// Once done: the keys, if the connection is encrypted.
  std::optional<StreamKeys> keys() const;

  static constexpr std::size_t kLongestMessage = 64;

 private:
  enum class State { AwaitHello, AwaitProof, Done };
  std::string key_;
  std::uint32_t rank_;
  bool asks_for_encryption_;
  State state_ = State::AwaitHello;
  std::string received_;  // part of the awaited message
  std::string transcript_;
  PeerConnectionName name_;
};

/// The dialing side.
class DialerHandshake {
 public:
  DialerHandshake(std::string key, const PeerConnectionName& name, bool asks_for_encryption = false);

  static constexpr std::size_t kAnswerBytes = 4 + 32;
  const std::string& hello() const { return transcript_; }
  /// @param answer  the acceptor's, to the hello; kAnswerBytes
  std::string proof(std::string_view answer);
  /// Whether the acceptor's proof, an answer to the dialer's, is right.
  bool accepts(std::string_view proof) const;
  /// Once it is right: the keys, if the connection is encrypted.
  std::optional<StreamKeys> keys() const;

 private:
  std::string key_;
  std::string transcript_;
};

/// How a dialer's handshake ended.
enum class DialOutcome {
  Proven,
  Closed,  ///< the other side ended the connection: it is overloaded, or does not know the key
  TimedOut,
  Impostor,  ///< the other side does not know the key
};
struct Dialed {
  DialOutcome outcome = DialOutcome::TimedOut;
  std::optional<StreamKeys> keys;  ///< of a proven connection that is encrypted
};
/// Runs the dialing side on a connected socket, and asks for encryption if `asks_for_encryption(fd)` says so.
Dialed prove_to_peer(int fd, const std::string& key, const PeerConnectionName& name, Deadline deadline);

}  // namespace lockstep
