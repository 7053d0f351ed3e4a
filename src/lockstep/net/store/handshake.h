#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Version of the store's protocol; sides of different versions refuse each other.
constexpr unsigned kStoreProtocolVersion = 1;

/// Keys of a proven connection, one for each direction; new for every connection.
struct SessionKeys {
  std::string client_to_server;
  std::string server_to_client;
};

/// The server's side of the proof that both ends know the job's secret. It takes bytes as they arrive:
///
///     client -> server   hello: magic, version, client nonce
///     server -> client   hello: magic, version, server nonce
///     client -> server   proof: HMAC(secret, "client" label, both nonces)
///     server -> client   proof: HMAC(secret, "server" label, both nonces)
///
/// The client proves first: a client that does not know the secret gets a random number and nothing else.
class ServerHandshake {
 public:
  explicit ServerHandshake(std::string secret) : secret_(std::move(secret)) {}

  bool done() const { return state_ == State::Done; }
  /// How many bytes may be read now, at most 44; later bytes do not belong to the handshake.
  std::size_t wanted_bytes() const;
  /// @param bytes  at most `wanted_bytes()`
  /// @return  the bytes to send now; may be empty
  /// @throws WireError  if the peer speaks another protocol or does not know the secret; the connection must end
  std::string take(std::string_view bytes);
  const SessionKeys& keys() const { return keys_; }  ///< once done

 private:
  enum class State { AwaitHello, AwaitProof, Done };
  std::string secret_;
  State state_ = State::AwaitHello;
  std::string received_;  // part of the awaited message
  std::string client_nonce_;
  std::string server_nonce_;
  SessionKeys keys_;
};

/// How a client's handshake ended.
struct ClientHandshake {
  enum class Outcome {
    Proven,
    ClosedEarly,    ///< before the server's hello: it is overloaded or ending; another attempt may succeed
    ClosedAtProof,  ///< after the client's proof: the server has another secret, or dropped the connection
    NotAStore,      ///< another program listens there
    OtherVersion,
    WrongServer,  ///< the server does not know the secret
    TimedOut
  };
  Outcome outcome = Outcome::TimedOut;
  SessionKeys keys;
  std::string detail;  ///< for the error message
};

/// Runs the client's side on a connected socket.
ClientHandshake prove_to_server(int fd, const std::string& secret, Deadline deadline);

}  // namespace lockstep
