#include "lockstep/net/store/store_connector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/sockets/socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{250};
constexpr milliseconds kHandshakeTime{5000};                 // of one attempt; a server answers in microseconds
constexpr auto kUnknownHostTime = std::chrono::seconds(10);  // names of new hosts may need a moment to resolve
// An overloaded server drops connections at any stage, so a single refusal proves nothing.
constexpr int kRefusalsUntilCertain = 3;

class Connector {
 public:
  Connector(const SocketAddress& address, const std::string& secret, Deadline deadline, const std::string& where)
      : address_(address), secret_(secret), deadline_(deadline), where_(where) {}

  ProvenConnection connect() {
    milliseconds pause = kFirstPause;
    for (;;) {
      if (auto connection = attempt()) return std::move(*connection);
      if (deadline_.passed()) give_up();
      std::this_thread::sleep_for(std::min(pause, deadline_.remaining()));
      pause = std::min(pause * 2, kLongestPause);
    }
  }

 private:
  // Nothing if another attempt may succeed; `failure_` then contains why this one failed.
  std::optional<ProvenConnection> attempt() {
    Connected connected = connect_once(address_, secret_.empty(), deadline_);
    if (!connected.fd) {
      failure_ = connected.failure;
      if (connected.unknown_host && Deadline::Clock::now() - started_ > kUnknownHostTime) {
        throw Error(failure_, where_, "check MASTER_ADDR, or write a numeric address");
      }
      return std::nullopt;
    }
    if (address_.kind == SocketAddress::Kind::Tcp) tune_connection(connected.fd.get());
    const Deadline limit = Deadline::after(std::min(kHandshakeTime, deadline_.remaining()));
    ClientHandshake handshake = prove_to_server(connected.fd.get(), secret_, limit);
    if (handshake.outcome == ClientHandshake::Outcome::Proven) {
      return ProvenConnection{std::move(connected.fd), std::move(handshake.keys)};
    }
    note(handshake);
    return std::nullopt;
  }

  // Stores why a handshake failed, or throws if no other attempt can succeed.
  void note(const ClientHandshake& handshake) {
    using Outcome = ClientHandshake::Outcome;
    const std::string name = address_.text();
    const std::string same_secret = "give all ranks the same secret (LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE)";
    switch (handshake.outcome) {
      case Outcome::NotAStore:
        throw Error("what listens at " + name + " is not a Lockstep store", where_,
                    "check the address and port; another program may use this port");
      case Outcome::OtherVersion:
        throw Error(fmt::format("the store at {} speaks protocol version {}, but this process speaks version {}", name,
                                handshake.detail, kStoreProtocolVersion),
                    where_, "run all ranks and the launcher with one version of Lockstep");
      case Outcome::WrongServer:
        throw Error("the store at " + name + " does not know this job's secret, so it is not this job's store", where_,
                    same_secret + "; check that no other job uses this address");
      case Outcome::ClosedAtProof:
        failure_ = "it ended the connection when it received our proof of the secret";
        if (++refusals_ < kRefusalsUntilCertain) return;
        throw Error(fmt::format("the store at {} refused this process: its secret is another one than {}", name,
                                secret_.empty() ? "none, which this process has" : "this process's"),
                    where_, same_secret + "; check that no other job uses this address");
      case Outcome::ClosedEarly:
        failure_ = "it ended the connection before its greeting";
        return;
      case Outcome::TimedOut:
        failure_ = "it accepted the connection, but does not answer";
        return;
      case Outcome::Proven:
        return;
    }
  }

  [[noreturn]] void give_up() const {
    const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - started_).count();
    throw TimeoutError(
        fmt::format("cannot reach the store at {}; tried for {:.1f} s, last: {}", address_.text(), seconds, failure_),
        where_,
        "check that rank 0 (or the launcher) runs and has reached this point; check MASTER_ADDR and MASTER_PORT, and "
        "that no firewall is in between");
  }

  const SocketAddress& address_;
  const std::string& secret_;
  const Deadline deadline_;
  const std::string& where_;
  const Deadline::Clock::time_point started_ = Deadline::Clock::now();
  std::string failure_;
  int refusals_ = 0;
};

}  // namespace

ProvenConnection connect_to_store(const SocketAddress& address, const std::string& secret, Deadline deadline,
                                  const std::string& where) {
  if (address.kind == SocketAddress::Kind::Tcp) check_encryption_has_secret(secret, address.text());
  return Connector(address, secret, deadline, where).connect();
}

}  // namespace lockstep
