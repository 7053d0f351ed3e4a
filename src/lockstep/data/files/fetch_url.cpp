#include "lockstep/data/files/fetch_url.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"

extern char** environ;

namespace lockstep {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error("cannot make a pipe: " + errno_text(errno), "fetch_url", "close files, or raise ulimit -n");
    }
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

// A running program. The destructor ends one that was not waited for.
class Child {
 public:
  Child(std::vector<std::string> arguments, int out, int err) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    const int code = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (code == 0) return;
    pid_ = -1;
    throw Error(fmt::format("cannot start {}: {}", arguments[0], errno_text(code)), "fetch_url",
                fmt::format("install {0} (apt-get install {0})", arguments[0]));
  }
  ~Child() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The exit code; 128 plus the signal's number if a signal ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

// Appends the available bytes to `text`, up to `most_bytes` + 1 in all. False at the end.
bool read_some(const UniqueFd& fd, std::string& text, std::size_t most_bytes) {
  std::array<char, 1 << 16> block;
  const ssize_t got = ::read(fd.get(), block.data(), block.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  text.append(block.data(), std::min(static_cast<std::size_t>(got), most_bytes + 1 - text.size()));
  return got > 0;
}

std::vector<std::string> curl_command(const std::string& url) {
  return {"curl",
          "--fail",
          "--silent",
          "--show-error",
          "--location",
          "--proto",
          "=https,http,file",
          "--proto-redir",
          "=https,http",
          "--connect-timeout",
          "20",
          "--speed-limit",
          "1000",
          "--speed-time",
          "30",
          "--url",
          url};
}

}  // namespace

std::string fetch_url(const std::string& url, std::size_t most_bytes, Deadline deadline) {
  Pipe out;
  Pipe err;
  Child curl(curl_command(url), out.write_end.get(), err.write_end.get());
  out.write_end.reset();
  err.write_end.reset();

  constexpr std::size_t kMostMessageBytes = 4096;
  std::string content;
  std::string message;
  std::array<pollfd, 2> ends{{{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("{} bytes came before the time was up", content.size()), url,
                         "try again later, or another mirror");
    }
    if (::poll(ends.data(), ends.size(), deadline.poll_timeout_ms()) <= 0) continue;
    if (ends[0].revents != 0 && !read_some(out.read_end, content, most_bytes)) ends[0].fd = -1;
    if (ends[1].revents != 0 && !read_some(err.read_end, message, kMostMessageBytes)) ends[1].fd = -1;
    if (content.size() > most_bytes) {
      throw Error(fmt::format("more than the {} bytes expected came", most_bytes), url, "try another mirror");
    }
  }
  const int code = curl.wait();
  if (code == 0) return content;
  while (!message.empty() && message.back() == '\n') message.pop_back();
  throw Error(message.empty() ? fmt::format("curl ended with code {}", code) : message, url,
              "check that this machine reaches the network, and the proxy settings (https_proxy)");
}

}  // namespace lockstep
