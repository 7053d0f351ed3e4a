#include "lockstep/hub/web_request.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <sstream>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/text/lower_case.h"

extern char** environ;

namespace lockstep {
namespace {

constexpr int kHeadersDescriptor = 3;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error("cannot make a pipe: " + errno_text(errno), "send_request", "close files, or raise ulimit -n");
    }
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

// What a program reads and writes: descriptors of this process.
struct CurlStreams {
  int in;
  int out;
  int err;
  int headers;
};

// A running program. The destructor ends one that was not waited for.
class Child {
 public:
  Child(std::vector<std::string> arguments, const CurlStreams& streams) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, streams.in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, streams.out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, streams.err, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, streams.headers, kHeadersDescriptor);  // last: it may be in the way
    const int code = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (code == 0) return;
    pid_ = -1;
    throw Error(fmt::format("cannot start {}: {}", arguments[0], errno_text(code)), "send_request",
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

using Take = std::function<void(std::string_view)>;

// Passes the available bytes on. False at the end.
bool read_some(const UniqueFd& fd, const Take& take) {
  std::array<char, 1 << 16> block;
  const ssize_t got = ::read(fd.get(), block.data(), block.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got > 0) take({block.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

// Keeps the first bytes of a text that should be short.
Take into(std::string& text, std::size_t most_bytes) {
  return [&text, most_bytes](std::string_view bytes) {
    text.append(bytes.substr(0, most_bytes - std::min(text.size(), most_bytes)));
  };
}

std::vector<std::string> curl_command(const WebRequest& request) {
  const bool is_secure = request.url.rfind("https:", 0) == 0;
  std::vector<std::string> command{"curl",
                                   "--fail",
                                   "--silent",
                                   "--show-error",
                                   "--location",
                                   "--proto",
                                   "=https,http,file",
                                   "--proto-redir",
                                   is_secure && !request.bearer_token.empty() ? "=https" : "=https,http",
                                   "--connect-timeout",
                                   "20",
                                   "--speed-limit",
                                   "1000",
                                   "--speed-time",
                                   "30",
                                   "--dump-header",
                                   fmt::format("/dev/fd/{}", kHeadersDescriptor),
                                   "--url",
                                   request.url};
  if (request.from_byte > 0) {
    command.insert(command.end(), {"--continue-at", std::to_string(request.from_byte)});
  }
  if (!request.bearer_token.empty()) command.insert(command.end(), {"--header", "@-"});
  return command;
}

// The token travels through curl's standard input, because every user of the host sees a command's words.
Pipe standard_input(const WebRequest& request) {
  Pipe pipe;
  if (!request.bearer_token.empty()) {
    const std::string header = "Authorization: Bearer " + request.bearer_token + "\n";
    // Shorter than the pipe's room, so this does not wait for a reader.
    if (::write(pipe.write_end.get(), header.data(), header.size()) != static_cast<ssize_t>(header.size())) {
      throw Error("cannot pass the token to curl: " + errno_text(errno), "send_request", "give a shorter token");
    }
  }
  pipe.write_end.reset();
  return pipe;
}

// Reads what the last of several answers, one for each redirection, said about itself.
void read_headers(const std::string& headers, WebAnswer& answer) {
  std::istringstream lines(headers);
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.rfind("HTTP/", 0) == 0) {
      answer.error_code.clear();
      const std::size_t space = line.find(' ');
      answer.status = space == std::string::npos ? 0 : std::atoi(line.c_str() + space);
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || lower_case(line.substr(0, colon)) != "x-error-code") continue;
    const std::size_t begin = line.find_first_not_of(' ', colon + 1);
    answer.error_code = begin == std::string::npos ? "" : line.substr(begin);
  }
}

}  // namespace

bool WebAnswer::lacks_ranges() const {
  constexpr int kNoRanges = 33;        // CURLE_RANGE_ERROR
  constexpr int kCannotContinue = 36;  // CURLE_BAD_DOWNLOAD_RESUME
  constexpr int kRangeNotSatisfiable = 416;
  return curl_code == kNoRanges || curl_code == kCannotContinue || status == kRangeNotSatisfiable;
}

WebAnswer send_request(const WebRequest& request, const Take& take, Deadline deadline) {
  const Pipe in = standard_input(request);
  Pipe out;
  Pipe err;
  Pipe headers;
  Child curl(curl_command(request),
             {in.read_end.get(), out.write_end.get(), err.write_end.get(), headers.write_end.get()});
  for (Pipe* pipe : {&out, &err, &headers}) pipe->write_end.reset();

  constexpr std::size_t kMostMessageBytes = 4096;
  constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 20;
  WebAnswer answer;
  std::string header_text;
  std::int64_t bytes = 0;
  const std::array<Take, 3> takers{[&](std::string_view piece) {
                                     bytes += static_cast<std::int64_t>(piece.size());
                                     take(piece);
                                   },
                                   into(answer.message, kMostMessageBytes), into(header_text, kMostHeaderBytes)};
  const std::array<const UniqueFd*, 3> fds{&out.read_end, &err.read_end, &headers.read_end};
  std::array<pollfd, 3> ends{};
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = {fds[i]->get(), POLLIN, 0};
  while (std::any_of(ends.begin(), ends.end(), [](const pollfd& end) { return end.fd >= 0; })) {
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("{} bytes arrived before the timeout", bytes), request.url,
                         "try again later, or another mirror");
    }
    if (::poll(ends.data(), ends.size(), deadline.poll_timeout_ms()) <= 0) continue;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd >= 0 && ends[i].revents != 0 && !read_some(*fds[i], takers[i])) ends[i].fd = -1;
    }
  }
  answer.curl_code = curl.wait();
  while (!answer.message.empty() && answer.message.back() == '\n') answer.message.pop_back();
  if (answer.message.empty() && answer.curl_code != 0) {
    answer.message = fmt::format("curl ended with code {}", answer.curl_code);
  }
  read_headers(header_text, answer);
  return answer;
}

}  // namespace lockstep
