#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Version of the store's protocol; sides of different versions refuse each other.
constexpr unsigned kStoreProtocolVersion = 2;

/// Keys of a proven connection, one for each direction; new for every connection.
struct SessionKeys {
  std::string client_to_server;
  std::string server_to_client;
  bool encrypted = false;  ///< one of the sides asked for encryption
};

/// The server's side of the proof that both ends know the job's secret. It takes bytes as they arrive:
///
///     client -> server   hello: magic, version and wishes, client nonce
///     server -> client   hello: magic, version and wishes, server nonce
///     client -> server   proof: HMAC(secret, "client" label, both hellos)
///     server -> client   proof: HMAC(secret, "server" label, both hellos)
///
/// The client proves first: a client that does not know the secret gets a random number and nothing else. Wishes: 1
/// asks for encryption, and one side's is enough.
class ServerHandshake {
 public:
  explicit ServerHandshake(std::string secret, bool asks_for_encryption = false)
      : secret_(std::move(secret)), asks_for_encryption_(asks_for_encryption) {}

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
  bool asks_for_encryption_;
  State state_ = State::AwaitHello;
  std::string received_;  // part of the awaited message
  std::string hellos_;
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

/// Runs the client's side on a connected socket, and asks for encryption if `asks_for_encryption(fd)` says so.
ClientHandshake prove_to_server(int fd, const std::string& secret, Deadline deadline);

}  // namespace lockstep
