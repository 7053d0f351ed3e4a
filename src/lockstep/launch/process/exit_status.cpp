#include "lockstep/launch/process/exit_status.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <fstream>

#include "lockstep/base/signals.h"

namespace lockstep {

std::string ExitStatus::describe() const {
  if (signal == 0) return fmt::format("exit code {}", code);
  const char* meaning = ::sigdescr_np(signal);
  return fmt::format("killed by {} ({}){}", signal_name(signal), meaning != nullptr ? meaning : "no description",
                     dumped_core ? ", core dumped" : "");
}

ExitStatus exit_status_of(const siginfo_t& info) {
  ExitStatus status;
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
    status.dumped_core = info.si_code == CLD_DUMPED;
  }
  return status;
}

namespace {

constexpr const char* kWroteNothing =
    "it wrote nothing to standard error: run one rank under gdb; if its output goes to files, check whether their disk "
    "is full";

bool is_request_to_end(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

std::string advice_for_code(int code, bool has_lines) {
  if (code == 126) return "the shell could not execute a program: check its permissions";
  if (code == 127) {
    return fmt::format("the shell or the loader did not find a program or library: {}",
                       has_lines ? "its last lines name it" : kWroteNothing);
  }
  if (code > 128 && code <= 128 + 64) {
    if (is_request_to_end(code - 128)) {
      return fmt::format("it, or a program that it ran, was asked to end by {}: by a user, a batch system, or itself",
                         signal_name(code - 128));
    }
    return fmt::format("a program that it ran was ended by {}: {}", signal_name(code - 128),
                       has_lines ? "see its last lines" : kWroteNothing);
  }
  if (!has_lines) return kWroteNothing;
  return "see its last lines; 'lockstep run --tee 3 --log-dir DIR' keeps everything that each rank writes";
}

}  // namespace

std::string advice_for(const ExitStatus& status, bool out_of_memory, bool has_lines) {
  switch (status.signal) {
    case 0:
      break;
    case SIGKILL:
      return out_of_memory
                 ? "the kernel ended it because memory ran out: use a smaller batch, fewer ranks, or more memory"
                 : "someone killed it, or the kernel did because memory ran out (dmesg shows it): use a smaller batch, "
                   "or fewer ranks";
    case SIGSEGV:
    case SIGBUS:
      return "a bad memory access in the program: run one rank under gdb, or build it with -fsanitize=address"
             " (SIGBUS: also a full disk or /dev/shm)";
    case SIGABRT:
      return fmt::format("it gave up by itself: {}", has_lines ? "its last lines give the reason" : kWroteNothing);
    case SIGILL:
      return "it was built for another processor than this one: build it on this host";
    case SIGFPE:
      return "an integer was divided by zero: run one rank under gdb";
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
      return "someone asked it to end: a user, a batch system, or its own program";
    case SIGXCPU:
      return "it used up its processor time: ulimit -t";
    case SIGPIPE:
      return "it wrote to a pipe or socket that nobody reads any more";
    default:
      return has_lines ? "see its last lines" : kWroteNothing;
  }
  return advice_for_code(status.code, has_lines);
}

long count_out_of_memory_kills() {
  std::ifstream events("/sys/fs/cgroup/memory.events");
  std::string key;
  for (long value = 0; events >> key >> value;) {
    if (key == "oom_kill") return value;
  }
  std::ifstream machine("/proc/vmstat");  // the root group has no memory.events
  for (long value = 0; machine >> key >> value;) {
    if (key == "oom_kill") return value;
  }
  return 0;
}

}  // namespace lockstep
