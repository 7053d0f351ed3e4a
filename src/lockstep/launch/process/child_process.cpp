#include "lockstep/launch/process/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/companion_path.h"
#include "lockstep/base/processor/cpu_mask.h"
#include "lockstep/base/start_thread.h"

namespace lockstep {
namespace {

[[noreturn]] void cannot_start(const std::string& program, int code, const std::string& fix) {
  throw Error(fmt::format("cannot start {}: {}", program, errno_text(code)), "the launcher", fix);
}

[[noreturn]] void refuse_watch(const std::string& program, int code) {
  const bool is_full = code == EMFILE || code == ENFILE;
  throw Error(fmt::format("cannot watch {}: pidfd_open: {}", program, errno_text(code)), "the launcher",
              is_full
                  ? "raise the limit of open files (ulimit -n)"
                  : "the system call pidfd_open is needed: Linux 5.4 or newer, and a sandbox (seccomp) that lets it "
                    "and waitid pass");
}

// By its first bytes, as the kernel sees it. A file that may not be read could be one.
bool is_program_or_script(const std::string& file) {
  std::ifstream bytes(file, std::ios::binary);
  std::string start(4, '\0');
  if (!bytes) return true;
  bytes.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.rfind("#!", 0) == 0 || start ==
                                          "\x7f"
                                          "ELF";
}

// An accessible folder is executable for access(2), but is not a program.
bool is_executable_file(const std::string& file) {
  if (::access(file.c_str(), X_OK) != 0) return false;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) return true;
  errno = EACCES;
  return false;
}

// Whether Lockstep's sources have a program of this name, which not every build builds.
bool is_example(const std::string& name) {
  constexpr std::string_view kExamples = LOCKSTEP_EXAMPLES;  // " communicator ddp_mnist ... "
  return name.find(' ') == std::string::npos && kExamples.find(" " + name + " ") != std::string_view::npos;
}

std::string advice_for_example(const std::string& name) {
  return fmt::format(
      "it is an example of Lockstep: in the folder of its sources, cmake --preset release && cmake --build --preset "
      "release --target {} builds it in build/release/bin, which belongs on your PATH",
      name);
}

// Why a program of a plain name is not found; the launcher's own folder may have it.
std::string advice_for_missing(const std::string& name) {
  const std::string beside = companion_path(name);
  if (is_executable_file(beside)) {
    const std::string folder = std::filesystem::path(beside).parent_path().string();
    return fmt::format("it is in {}: export PATH={}:$PATH", folder, folder);
  }
  if (is_example(name)) return advice_for_example(name);
  return "check the spelling; a program of the current folder is written ./" + name;
}

std::string advice(const std::string& program, int code) {
  switch (code) {
    case ENOENT:
      if (program.find('/') == std::string::npos) return advice_for_missing(program);
      if (const auto name = std::filesystem::path(program).filename().string(); is_example(name)) {
        return advice_for_example(name);
      }
      return "check the path; if it is a script, check the interpreter in its first line";
    case EACCES:
      if (std::filesystem::is_directory(program)) return "that is a folder; name a program in it";
      if (is_program_or_script(program)) return "make it executable: chmod +x " + program;
      return "it is not a program, and has no first line such as #!/bin/sh; if it is a source file, name the program "
             "that is built from it";
    case ENOEXEC:
      return "it is not a program for this machine, or a script without a first line such as #!/bin/sh";
    default:
      return "see the cause above";
  }
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs, prepared before the fork: another thread may hold the allocator's lock during the
// fork, so the child must not allocate.
struct Prepared {
  std::string program;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::optional<CpuMask> cores;
  int out;
  int err;
  const std::vector<int>& kept;
  pid_t parent;
  int report;  // the child writes errno here if it cannot become the program
};

// Gives `descriptor` the number `number`, open across exec. If the numbers are equal, dup2 would leave close-on-exec
// set.
bool put_at(int descriptor, int number) {
  if (descriptor < 0) return true;
  if (descriptor == number) return ::fcntl(descriptor, F_SETFD, 0) == 0;
  return ::dup2(descriptor, number) >= 0;
}

[[noreturn]] void become_program(const Prepared& prepared) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(127);  // it ended before it could be watched
  if (prepared.cores) prepared.cores->bind_this_thread();
  bool are_placed = put_at(prepared.out, STDOUT_FILENO) && put_at(prepared.err, STDERR_FILENO);
  for (const int descriptor : prepared.kept) are_placed = are_placed && put_at(descriptor, descriptor);
  if (are_placed) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(prepared.program.c_str(), prepared.arguments.data(), prepared.environment.data());
  }
  const int code = errno;
  [[maybe_unused]] const ssize_t written = ::write(prepared.report, &code, sizeof(code));
  ::_exit(127);
}

// The child's report: 0 once it has become the program, because the pipe then closes.
int wait_for_exec(int pipe) {
  int code = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe, &code, sizeof(code));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(code) ? code : 0;
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  int code = ENOENT;
  for (std::size_t start = 0; start <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', start), folders.size());
    const std::string folder = folders.substr(start, end - start);
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable_file(file)) return file;
    if (errno == EACCES) code = EACCES;
    start = end + 1;
  }
  cannot_start(name, code, advice(name, code));
}

ChildProcess start_child(const ChildCommand& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    cannot_start(command.arguments.front(), errno, "close some files of this process");
  }
  ChildProcess child;
  child.report = UniqueFd(ends[0]);
  const UniqueFd write_end(ends[1]);
  Prepared prepared{find_program(command.arguments.front()),
                    pointers(command.arguments),
                    pointers(command.environment),
                    std::nullopt,
                    command.out,
                    command.err,
                    command.kept,
                    ::getpid(),
                    write_end.get()};
  if (!command.cores.empty()) prepared.cores.emplace(command.cores);

  child.pid = ::fork();
  if (child.pid < 0) cannot_start(prepared.program, errno, advice_without_process(errno));
  if (child.pid == 0) become_program(prepared);
  child.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  if (!child.pidfd) {
    const int code = errno;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    refuse_watch(prepared.program, code);
  }
  return child;
}

void confirm_start(ChildProcess& child, const ChildCommand& command) {
  if (!child.report) return;
  const int code = wait_for_exec(child.report.get());
  child.report.reset();
  if (code == 0) return;
  ::waitpid(child.pid, nullptr, 0);
  child.pid = -1;
  cannot_start(command.arguments.front(), code, advice(command.arguments.front(), code));
}

}  // namespace lockstep
