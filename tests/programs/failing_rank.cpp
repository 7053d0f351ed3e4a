// A rank that fails in the way that its first argument says, or sees another one fail. Rank 0 is at fault. If that is
// possible, it ends after the others, which saw it fail.
//   shapes   rank 0 calls a network with a batch of a wrong shape; nobody catches what LibTorch throws
//   throw    rank 0 throws; nobody catches it
//   catch    rank 0 throws; main catches it, prints it and returns 1
//   abort    rank 0 ends the group for all, and throws once the others have ended
//   leave    rank 0 leaves the group, and throws once the others have ended
//   hang     rank 0 ends the group for all, and stays
//   together rank 0 throws in run_together; main catches it on every rank and returns 1, on rank 0 last
//   reworded as leave; main catches what its rank sees, and writes words of its own about it
//   phrases  rank 0 throws; main catches it, and writes it in words that other ranks use of a lost one
//   threads, processes  rank 0 starts ranks of its own, of which one throws; main catches that and returns 1
// A second argument is the engine.
#include <poll.h>
#include <sys/syscall.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/spawn.h"
#include "tests/programs/rank_programs.h"

namespace failing_rank {
namespace {

using lockstep::Peer;

std::vector<lockstep::UniqueFd> watch_others() {
  std::vector<lockstep::UniqueFd> others;
  const lockstep::Membership& membership = lockstep::default_group()->membership();
  for (const Peer& peer : membership.peers) {
    if (peer.pid != ::getpid()) others.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  }
  return others;
}

void await_ends(const std::vector<lockstep::UniqueFd>& others) {
  for (const lockstep::UniqueFd& other : others) {
    pollfd event{other.get(), POLLIN, 0};
    while (::poll(&event, 1, -1) != 1) {
    }
  }
}

void inner_rank(const std::shared_ptr<lockstep::Communicator>& group) {
  if (group->rank() == 1) throw std::runtime_error("this is the fault");
  at::Tensor sum = torch::ones({10});
  group->all_reduce(sum);
}

void fail(const std::string& mode) {
  if (mode == "shapes") torch::nn::Linear(4, 8)->forward(torch::ones({3, 5}));
  if (mode == "abort" || mode == "leave" || mode == "reworded") {
    const auto others = watch_others();
    if (mode == "abort") {
      lockstep::default_group()->abort("rank 0 has seen the fault");
    } else {
      lockstep::destroy_process_group();
    }
    await_ends(others);
  }
  if (mode == "threads") lockstep::spawn_threads(2, inner_rank);
  if (mode == "hang") {
    lockstep::default_group()->abort("rank 0 has seen the fault");
    for (;;) ::pause();
  }
  throw std::runtime_error("this is the fault");
}

// The group lives on, so that no collective says whose fault it was.
void run_agreed() {
  const auto group = lockstep::default_group();
  std::vector<lockstep::UniqueFd> others;
  if (group->rank() == 0) others = watch_others();
  try {
    lockstep::run_together(*group, "preparing", [&] {
      if (group->rank() == 0) throw std::runtime_error("this is the fault");
    });
  } catch (const std::exception&) {
    await_ends(others);
    throw;
  }
}

void run(const std::string& mode, const std::string& engine) {
  // Before the process has threads.
  if (mode == "processes" && std::string(std::getenv("RANK")) == "0") lockstep::spawn_processes(2, inner_rank);
  lockstep::init_process_group(engine);
  at::Tensor sum = torch::ones({1000});
  lockstep::default_group()->all_reduce(sum);
  if (mode == "together") run_agreed();
  if (lockstep::get_rank() == 0) fail(mode);
  lockstep::default_group()->all_reduce(sum);
  throw std::runtime_error("nobody failed");
}

// What main writes about `error`.
std::string words_of(const std::string& mode, const std::exception& error) {
  const std::string text = error.what();
  const bool is_fault = text.find("this is the fault") != std::string::npos;
  if (mode == "reworded") return is_fault ? text : "batch 7 was not computed";
  if (mode == "phrases" && is_fault) return "all_reduce lost rank 1, which left the group (found by rank 0): " + text;
  return text;
}

}  // namespace
}  // namespace failing_rank

int run_failing_rank(int argc, char** argv) {
  using namespace failing_rank;
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string engine = argc > 2 ? argv[2] : "shm";
  for (const char* uncaught : {"shapes", "throw", "abort", "leave", "hang"}) {
    if (mode == uncaught) run(mode, engine);
  }
  try {
    run(mode, engine);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", words_of(mode, error).c_str());
    return 1;
  }
  return 0;
}
