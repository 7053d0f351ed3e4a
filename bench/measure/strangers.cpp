#include "bench/measure/strangers.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/measure/listening_ports.h"
#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/net/peers/job_key.h"
#include "lockstep/net/peers/peer_handshake.h"
#include "lockstep/net/sockets/socket.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAgain{20};
constexpr std::chrono::minutes kLongestAttack{10};
constexpr std::size_t kProofBytes = 32;

Deadline at_once() { return Deadline::after(std::chrono::milliseconds(0)); }

std::size_t connections_to_hold() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_NOFILE, &files);
  return std::min<std::size_t>(5000, files.rlim_cur / 2);
}

}  // namespace

const char* to_string(StrangerKind kind) {
  constexpr std::array<const char*, kStrangerKinds> kNames{
      "silent", "slow", "random bytes", "replay", "wrong secret", "other job", "huge length", "other protocol"};
  return kNames[static_cast<std::size_t>(kind)];
}

Strangers::Strangers(std::vector<pid_t> roots, RecordedClient recorded)
    : roots_(std::move(roots)), recorded_(std::move(recorded)), held_at_once_(connections_to_hold()) {
  thread_ = std::thread([this] { attack(); });
}

Strangers::~Strangers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Strangers::wait_until(std::int64_t connections, std::size_t ports) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto reached = [&] { return connections_ >= connections && reached_.size() >= ports; };
  if (more_.wait_for(lock, kLongestAttack, reached)) return;
  throw Error(fmt::format("strangers made {} connections of {}, to {} ports of {}, within ten minutes", connections_,
                          connections, reached_.size(), ports),
              "bench strangers", "give less for --connections");
}

std::int64_t Strangers::connections() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return connections_;
}

std::size_t Strangers::ports() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return reached_.size();
}

void Strangers::attack() {
  std::vector<std::string> ports;
  auto looked = Clock::now() - kLookAgain;
  for (std::size_t turn = 0;; ++turn) {
    if (Clock::now() - looked >= kLookAgain) {
      ports.clear();
      for (const SocketAddress& port : listening_ports(roots_)) ports.push_back(port.text());
      looked = Clock::now();
    }
    const auto kind = static_cast<StrangerKind>(turn % kStrangerKinds);
    for (const std::string& port : ports) connect_to(port, kind);
    send_slowly();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
  }
}

void Strangers::connect_to(const std::string& port, StrangerKind kind) {
  Connected stranger;
  try {
    stranger = connect_once(SocketAddress::parse(port), true, Deadline::after(std::chrono::seconds(1)));
  } catch (const Error&) {  // no local port or descriptor is left
    held_.clear();
    slow_.clear();
    return;
  }
  if (!stranger.fd) return;
  send_all(stranger.fd.get(), bytes_of(kind), at_once());
  if (kind == StrangerKind::Slow) {
    slow_.push_back({std::move(stranger.fd)});
  } else {
    held_.push_back(std::move(stranger.fd));
  }
  if (held_.size() + slow_.size() > held_at_once_) {
    held_.size() > slow_.size() ? held_.pop_front() : slow_.pop_front();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++connections_;
    reached_.insert(port);
  }
  more_.notify_all();
}

// One byte of the one that has waited longest, which is the last in the queue then.
void Strangers::send_slowly() {
  if (slow_.empty()) return;
  Slow next = std::move(slow_.front());
  slow_.pop_front();
  if (!send_all(next.fd.get(), recorded_.hello.substr(next.sent, 1), at_once())) return;  // the job has closed it
  if (++next.sent < recorded_.hello.size()) slow_.push_back(std::move(next));
}

std::string Strangers::bytes_of(StrangerKind kind) {
  const std::string huge(8, '\xff');
  switch (kind) {
    case StrangerKind::Silent:
    case StrangerKind::Slow:
      return "";
    case StrangerKind::RandomBytes: {
      std::string bytes(256, '\0');
      for (char& byte : bytes) {
        random_ = random_ * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<char>(random_ >> 56U);
      }
      return bytes;
    }
    case StrangerKind::Replay:
      return recorded_.all;
    case StrangerKind::WrongSecret:
      return recorded_.hello + std::string(kProofBytes, 'p');
    case StrangerKind::OtherJob: {
      const std::string key = peer_key(job_key_of("the secret of another job"), "default", "invitation");
      return DialerHandshake(key, PeerConnectionName{1, 0, 0}).hello() + std::string(kProofBytes, 'p');
    }
    case StrangerKind::HugeLength:
      return (++random_ % 2 == 0 ? recorded_.hello : "") + huge;
    case StrangerKind::OtherProtocol:
      return "GET / HTTP/1.1\r\nHost: job\r\n\r\n";
  }
  return "";
}

}  // namespace lockstep
