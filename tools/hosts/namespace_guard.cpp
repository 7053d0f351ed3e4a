#include "tools/hosts/namespace_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// A process that is killed while others are started in its place is found in the next round.
const char* const kScript =
    "read -r _\n"
    "for path in /run/netns/\"$0\"*; do\n"
    "  [ -e \"$path\" ] || continue\n"
    "  name=${path##*/}\n"
    "  for round in 1 2 3 4 5 6 7 8 9 10; do\n"
    "    pids=$(ip netns pids \"$name\" 2>/dev/null)\n"
    "    [ -n \"$pids\" ] || break\n"
    "    kill -9 $pids 2>/dev/null\n"
    "    sleep 0.05\n"
    "  done\n"
    "  ip netns delete \"$name\" 2>/dev/null\n"
    "done\n";

}  // namespace

NamespaceGuard::NamespaceGuard(const std::string& prefix) {
  std::array<int, 2> ends{};
  int failure = ::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno;
  if (failure == 0) {
    const UniqueFd read_end(ends[0]);
    alive_ = UniqueFd(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, read_end.get(), STDIN_FILENO);
    // A signal to the program's group, as of a terminal's Ctrl-C, is not for the guard.
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    std::array<std::string, 4> words{"sh", "-c", kScript, prefix};
    std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    failure = ::posix_spawnp(&guard_, "sh", &actions, &attributes, arguments.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  if (failure == 0) return;
  throw Error("cannot start a shell: " + errno_text(failure), "making hosts of network namespaces",
              "check the limits on processes");
}

NamespaceGuard::~NamespaceGuard() {
  if (!alive_) return;
  alive_.reset();
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep
