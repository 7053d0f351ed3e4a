// A rank for tests of the launcher: joins the job's store, and does what its first argument says.
//   meet            all ranks join, tell each other their pid, and end well
//   lose R          all join; then rank R kills itself, and the others wait for a word from it
//   stay            all join, tell it, and stay until they are told to end, which they tell; who sees a rank lost fails
//   lose-deaf R     the same, but the others ignore SIGTERM
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
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

void tell_and_end(int signal) {
  constexpr char kText[] = "was asked to end\n";
  if (::write(STDOUT_FILENO, kText, sizeof(kText) - 1) < 0) ::_exit(1);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void stay(const Membership& membership) {
  ::signal(SIGTERM, tell_and_end);
  membership.store->set("here/" + std::to_string(membership.rank), "1");
  for (int rank = 0; rank < membership.world_size; ++rank) {
    membership.store->get("here/" + std::to_string(rank), Deadline::after(std::chrono::seconds(30)));
  }
  say(membership, "joined " + std::to_string(membership.world_size) + ", restarts " +
                      std::getenv("TORCHELASTIC_RESTART_COUNT") + ", node " + std::getenv("GROUP_RANK") + " of " +
                      std::getenv("GROUP_WORLD_SIZE") + ", keys " + std::to_string(membership.store->num_keys()));
  for (;;) {
    for (const lockstep::LostRank& lost : membership.store->lost_ranks()) {
      lockstep::throw_recorded(lockstep::Error("rank " + std::to_string(lost.rank) + ": " + lost.cause, "stay", "none"),
                               {lockstep::FailureCause::Kind::LostPeer, lost.rank});
    }
    ::usleep(20000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "meet";
  if (what == "lose-deaf") ::signal(SIGTERM, SIG_IGN);
  try {
    const Membership membership = lockstep::rendezvous({});
    if (what == "meet") meet(membership);
    if (what == "stay") stay(membership);
    if (what == "lose" || what == "lose-deaf") lose(membership, std::stoi(argv[2]));
    membership.store->finish(Deadline::after(std::chrono::seconds(30)));
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "launch_rank: %s\n", error.what());
    return 1;
  }
  return 0;
}
