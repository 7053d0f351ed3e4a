#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// One contender of `lockstep bench all-reduce`: the processes of its ranks, which wait for their turns without using a
/// core, and a named pipe to and from each process.
class BenchContender {
 public:
  /// Starts the ranks of `engine` (one of `known()`, or "bound") and waits until they are ready.
  /// @throws Error  if its program is not in this build, or it fails to start
  BenchContender(std::string engine, int ranks, std::size_t largest_bytes);
  /// Ends the ranks: asks them to end, and kills those that do not.
  ~BenchContender();
  BenchContender(const BenchContender&) = delete;
  BenchContender& operator=(const BenchContender&) = delete;

  /// One turn: microseconds of an all-reduce of `bytes` on the slowest rank.
  /// @throws Error  if a sum is wrong, a rank fails, or the turn takes minutes
  double take_turn(std::size_t bytes);

  const std::string& engine() const { return engine_; }
  int ranks() const { return ranks_; }

  /// The names that --engines accepts.
  static const std::vector<std::string>& known();
  /// Why `engine` cannot run here; empty if it can.
  static std::string missing(const std::string& engine);

 private:
  void start_ranks(std::size_t largest_bytes);
  void spawn(std::vector<std::string> command, const std::vector<std::pair<std::string, std::string>>& environment);
  std::string answer(std::size_t rank);
  std::string program(const std::string& name) const;

  std::string engine_;
  int ranks_;
  std::string folder_;
  std::vector<UniqueFd> to_;
  std::vector<UniqueFd> from_;
  std::vector<std::string> partial_;  // the received part of the next line, by rank
  std::vector<pid_t> processes_;
};

}  // namespace lockstep
