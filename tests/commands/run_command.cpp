#include "tests/commands/run_command.h"

#include <ATen/Parallel.h>
#include <c10/core/GeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "lockstep/base/log.h"
#include "lockstep/base/text/flag_name.h"
#include "lockstep/comm/process_group.h"
#include "tools/frame/command_line.h"
#include "tools/frame/torch_error_text.h"

namespace lockstep {

#define TORCH_FREE(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#define NEEDS_TORCH(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#define BENCHMARKS(name, summary, example)
#define DISTURBS(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS

std::vector<SubcommandEntry> entries_of_this_process() {
  return {
#define TORCH_FREE(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep"},
#define NEEDS_TORCH(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep-torch"},
#define BENCHMARKS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-bench"},
#define DISTURBS(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep-chaos"},
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
  };
}

namespace {

using VariableChanges = std::map<std::string, std::optional<std::string>>;

void set_variable(const std::string& name, const std::optional<std::string>& value) {
  value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
}

/// Variables of this process, changed while it lives.
class ChangedVariables {
 public:
  explicit ChangedVariables(const VariableChanges& changes) {
    for (const auto& [name, value] : changes) {
      const char* const before = std::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      set_variable(name, value);
    }
  }
  ~ChangedVariables() {
    for (const auto& [name, value] : before_) set_variable(name, value);
  }
  ChangedVariables(const ChangedVariables&) = delete;
  ChangedVariables& operator=(const ChangedVariables&) = delete;

 private:
  VariableChanges before_;
};

// What a command could leave behind for the next one, as NAME=VALUE. Its generator is seeded for each command.
std::vector<std::string> state_of_process() {
  std::vector<std::string> state;
  for (char** variable = environ; *variable != nullptr; ++variable) state.emplace_back(*variable);
  std::sort(state.begin(), state.end());
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE}) {
    struct sigaction present {};
    ::sigaction(number, nullptr, &present);
    const auto handler = reinterpret_cast<std::uintptr_t>(present.sa_handler);
    state.push_back("handler of signal " + std::to_string(number) + "=" + std::to_string(handler));
  }
  state.push_back("folder=" + std::filesystem::current_path().string());
  state.push_back("threads=" + std::to_string(at::get_num_threads()));
  state.push_back("gradients=" + std::to_string(at::GradMode::is_enabled()));
  state.push_back("dtype=" + std::string(c10::toString(at::get_default_dtype_as_scalartype())));
  state.push_back("process group=" + std::to_string(is_initialized()));
  return state;
}

void require_state(const std::vector<std::string>& before, const std::string& command) {
  const std::vector<std::string> after = state_of_process();
  if (after == before) return;
  std::string text = "lockstep " + command + " has changed the process:";
  for (const std::string& each : after) {
    if (std::find(before.begin(), before.end(), each) == before.end()) text += "\n  now " + each;
  }
  for (const std::string& each : before) {
    if (std::find(after.begin(), after.end(), each) == after.end()) text += "\n  was " + each;
  }
  throw std::runtime_error(text);
}

}  // namespace

ProgramEnd run_command(CommandWords words, const std::string& input, const VariableChanges& changes,
                       bool is_in_terminal) {
  static const std::vector<SubcommandEntry> entries = entries_of_this_process();
  const std::string name = words.empty() ? "" : words.front();
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const ChangedVariables variables(changes);
  const std::vector<std::string> before = state_of_process();
  torch::manual_seed(c10::default_rng_seed_val);  // as in a new process
  ProgramEnd end;
  {
    const LogRedirection log(err);
    end.code = run_command(entries, std::move(words), {in, out, err, false, is_in_terminal}, torch_error_text);
  }
  require_state(before, name);
  end.out = out.str();
  end.err = err.str();
  return end;
}

std::string run_well(const CommandWords& words, const std::string& input) {
  const ProgramEnd end = run_command(words, input);
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  return end.out;
}

}  // namespace lockstep
