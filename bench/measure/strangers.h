// Connections to a job from programs that do not know its secret.
#pragma once

#include <sys/types.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure/recorded_client.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// What a stranger does once it is connected.
enum class StrangerKind {
  Silent,
  Slow,  ///< a member's first message, one byte after each other connection
  RandomBytes,
  Replay,        ///< all that a member sent before
  WrongSecret,   ///< a member's first message, and a proof by another secret
  OtherJob,      ///< a rank's first message to another rank, and a proof by another job's secret
  HugeLength,    ///< lengths of 2^63 bytes and more, before and after a member's first message
  OtherProtocol  ///< HTTP
};
constexpr std::size_t kStrangerKinds = 8;
/// "silent", "slow", ...
const char* to_string(StrangerKind kind);

/// Connects to every port on which the job listens, kind by kind, as fast as one thread can, until stopped. Most
/// connections are held open, as many as this process's limit of descriptors allows.
class Strangers {
 public:
  /// @param roots     the job's launchers
  /// @param recorded  what a member of this job sent
  Strangers(std::vector<pid_t> roots, RecordedClient recorded);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  /// Waits until they made so many connections, to so many ports in all.
  /// @throws Error  if that takes longer than ten minutes
  void wait_until(std::int64_t connections, std::size_t ports = 0);
  std::int64_t connections() const;
  /// How many ports they reached so far.
  std::size_t ports() const;
  /// How many connections they hold open at most.
  std::size_t held_at_once() const { return held_at_once_; }

 private:
  void attack();
  void connect_to(const std::string& port, StrangerKind kind);
  void send_slowly();
  std::string bytes_of(StrangerKind kind);

  const std::vector<pid_t> roots_;
  const RecordedClient recorded_;
  const std::size_t held_at_once_;
  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::int64_t connections_ = 0;   // guarded by mutex_
  std::set<std::string> reached_;  // guarded by mutex_
  bool stopping_ = false;          // guarded by mutex_
  struct Slow {
    UniqueFd fd;
    std::size_t sent = 0;
  };
  std::deque<UniqueFd> held_;
  std::deque<Slow> slow_;  // at most as many as held_
  std::uint64_t random_ = 1;
  std::thread thread_;
};

}  // namespace lockstep
