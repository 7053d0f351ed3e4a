// The systems that `lockstep bench step` compares: this build in its modes, other builds, and Python's DDP.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// What every system does in a turn.
struct StepWork {
  std::string model = "convnet";
  std::int64_t batch = 100;           // samples per rank and step
  std::int64_t sequence_length = 64;  // tokens of each text
  int steps = 50;
  std::string dtype = "fp32";  // or bf16: autocast; weights, gradients and the update stay fp32
  int threads = 0;             // of each rank
  std::string engine;          // of our ranks; empty: the fastest there is
  std::string python = "/usr/bin/python3";
  bool profile = false;        // of this build's steps
  std::string device = "cpu";  // or cuda: each rank on the device of its LOCAL_RANK
};

struct StepContender {
  std::string system;  // "lockstep", "lockstep-MODE", "lockstep@BUILD", or a peer's name
  int ranks = 1;
  std::string command;             // runs its ranks for one turn
  std::string details;             // versions, threads, precision; known after its first turn
  std::vector<double> median_ms;   // one per round
  double rss_mib = 0;              // maximum over its ranks and rounds
  nlohmann::ordered_json profile;  // of its last turn; null if it was not asked for
};

StepContender our_contender(const std::string& system, const StepWork& work, int ranks, const std::string& mode);

/// Lockstep as another build made it. @param build  its build folder
/// @throws Error  if the build has no benchmarks
StepContender contender_of_build(const std::string& build, const StepWork& work, int ranks, const std::string& mode);

/// The names of the peers: pytorch, and others.
std::vector<std::string> step_peers();
StepContender peer_contender(const std::string& peer, const StepWork& work, int ranks);

/// @throws Error  if Python lacks a library that one of `peers` needs, or a peer does not have the model
void check_step_peers(const std::vector<std::string>& peers, const StepWork& work);

}  // namespace lockstep
