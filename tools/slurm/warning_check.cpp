// Finds scripts for sbatch whose warning does not arrive at the ranks.
#include <fmt/format.h>

#include <csignal>
#include <map>

#include "lockstep/base/signals.h"
#include "lockstep/base/text/printable.h"
#include "tools/slurm/launcher_check.h"
#include "tools/slurm/slurm_values.h"
#include "tools/slurm/started_program.h"

namespace lockstep {
namespace {

// "B:USR1@120": who gets which signal.
struct Warning {
  bool to_shell_alone = false;
  int number = 0;  // 0: not known
  std::string name;
};

Warning warning_of(const std::string& value) {
  Warning warning;
  std::string text = value.substr(0, value.find('@'));
  if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
    warning.to_shell_alone = text.substr(0, colon).find('B') != std::string::npos;
    text.erase(0, colon + 1);
  }
  if (text.rfind("SIG", 0) == 0) text.erase(0, 3);
  static const std::map<std::string, int> numbers{
      {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT}, {"KILL", SIGKILL}, {"ALRM", SIGALRM},
      {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"URG", SIGURG},   {"CONT", SIGCONT}, {"STOP", SIGSTOP},
      {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU}, {"XCPU", SIGXCPU}, {"PWR", SIGPWR}};
  const auto found = numbers.find(text);
  warning.number = found != numbers.end() ? found->second : slurm_number(text).value_or(0);
  warning.name = warning.number > 0 && warning.number < NSIG ? signal_name(warning.number) : printable(value);
  return warning;
}

// torchrun and what is built on it pass these on to their ranks, unless they are told to pass on more.
bool is_passed_on_by_torchrun(int number) {
  return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
}

class WarningCheck {
 public:
  WarningCheck(const std::vector<ShellCommand>& commands, const AskedOfSlurm& asked,
               bool (*is_harmless)(const std::string& word))
      : commands_(commands), asked_(asked), is_harmless_(is_harmless), warning_(warning_of(asked.signal)) {}

  std::vector<FileFinding> run() {
    for (const ShellCommand& command : commands_) {
      const std::string first = file_name_of(command.words.front());
      has_trap_ = has_trap_ || first == "trap";
      has_srun_ = has_srun_ || first == "srun";
    }
    look_at_number();
    if (warning_.to_shell_alone) {
      look_at_shell();
    } else {
      for (const ShellCommand& command : commands_) look_at(started_by(command), command);
    }
    return std::move(findings_);
  }

 private:
  void find(int line, const std::string& problem, const std::string& fix) { findings_.push_back({line, problem, fix}); }

  void look_at_number() {
    if (warning_.number == SIGKILL || warning_.number == SIGSTOP) {
      find(asked_.signal_line, fmt::format("no program can save upon {}", warning_.name), "--signal=USR1@120");
    }
  }

  void look_at_shell() {
    if (has_trap_) return;  // what it does is for its author to know
    find(
        asked_.signal_line,
        fmt::format("B: sends {} to the batch script's shell alone, which dies of it: no rank is warned",
                    warning_.name),
        "leave B: out, and start the program by srun; or handle the signal by trap, with the program in the background "
        "and wait");
  }

  void look_at(const StartedProgram& started, const ShellCommand& command) {
    const bool trains = started.launcher || (!has_srun_ && starts_training(command.words.front()));
    if (!started.by_srun && trains) {
      return find(started.line,
                  fmt::format("Slurm sends {} to what srun starts, not to what the script runs itself: this program "
                              "would lose it, and nothing is saved before the limit",
                              warning_.name),
                  started.launcher ? "put srun --ntasks-per-node=1 before it" : "put srun before it");
    }
    if (!started.by_srun || !started.launcher) return;
    const LauncherKind& kind = *started.launcher->kind;
    if (started.is_outlived_by_shell) {
      find(started.line,
           fmt::format("{} goes to the shell around {}, too, which dies of it before the ranks have saved",
                       warning_.name, kind.name),
           "make the launcher the shell's last command: exec " + std::string(kind.name) + " ...");
    }
    if (!kind.is_lockstep && !is_passed_on_by_torchrun(warning_.number) && !is_told_to_pass_on(started.words)) {
      find(started.line,
           fmt::format("{} dies of {} and does not pass it on: its ranks are killed before they have saved", kind.name,
                       warning_.name),
           "lockstep run in its place, or --signal=TERM@120, or torchrun --signals-to-handle SIGTERM,SIGINT," +
               warning_.name);
    }
  }

  // mpirun starts its ranks by srun, and Slurm signals these.
  bool starts_training(const std::string& word) const {
    const std::string name = file_name_of(word);
    return !is_harmless_(word) && name != "mpirun" && name != "mpiexec" && name != "prun";
  }

  bool is_told_to_pass_on(const Words& words) const {
    return flag_value(words, "--signals-to-handle").value_or("").find(warning_.name) != std::string::npos;
  }

  const std::vector<ShellCommand>& commands_;
  const AskedOfSlurm& asked_;
  bool (*is_harmless_)(const std::string& word);
  const Warning warning_;
  bool has_trap_ = false;
  bool has_srun_ = false;
  std::vector<FileFinding> findings_;
};

}  // namespace

std::vector<FileFinding> check_warning(const std::vector<ShellCommand>& commands, const AskedOfSlurm& asked,
                                       bool (*is_harmless)(const std::string& word)) {
  if (asked.signal.empty()) return {};
  return WarningCheck(commands, asked, is_harmless).run();
}

}  // namespace lockstep
