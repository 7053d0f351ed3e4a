// A rank for tests of the launcher: joins the job's store, and does what its first argument says.
//   meet            all ranks join, tell each other their pid, and end well
//   lose R          all join; then rank R kills itself, and the others wait for a word from it
//   lose-deaf R     the same, but the others ignore SIGTERM
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/net/rendezvous.h"

namespace {

using lockstep::Deadline;
using lockstep::Membership;

void say(const Membership& membership, const std::string& text) {
  std::printf("rank %d: %s\n", membership.rank, text.c_str());
  std::fflush(stdout);
}

void meet(const Membership& membership) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  membership.store->set("pid/" + std::to_string(membership.rank), std::to_string(::getpid()));
  int met = 0;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    const auto peer = static_cast<std::size_t>(rank);
    if (membership.store->get("pid/" + std::to_string(rank), deadline) == std::to_string(membership.peers[peer].pid)) {
      ++met;
    }
  }
  say(membership, "met " + std::to_string(met) + " of " + std::to_string(membership.world_size));
}

void lose(const Membership& membership, int lost) {
  say(membership, "joined");
  if (membership.rank == lost) {
    std::fputs("about to die\n", stderr);
    ::raise(SIGKILL);
  }
  membership.store->get("word/" + std::to_string(lost), Deadline::after(std::chrono::seconds(120)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "meet";
  if (what == "lose-deaf") ::signal(SIGTERM, SIG_IGN);
  try {
    const Membership membership = lockstep::rendezvous({});
    if (what == "meet") meet(membership);
    if (what == "lose" || what == "lose-deaf") lose(membership, std::stoi(argv[2]));
    membership.store->finish(Deadline::after(std::chrono::seconds(30)));
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "launch_rank: %s\n", error.what());
    return 1;
  }
  return 0;
}
