// `lockstep completions`: what shells complete behind `lockstep`, and its manual page, from the commands' own flags.
#include "lockstep/base/text/flag_name.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <map>
#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/companion_path.h"
#include "lockstep/base/log.h"
#include "tools/frame/companion.h"
#include "tools/frame/shell.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/completions/shell_scripts.h"

namespace lockstep {

#define TORCH_FREE(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#define NEEDS_TORCH(name, summary, example)
#define BENCHMARKS(name, summary, example)
#define DISTURBS(name, summary, example)
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS

namespace {

std::vector<SubcommandEntry> entries_of_completions() {
  return {
#define TORCH_FREE(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep"},
#define NEEDS_TORCH(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-torch"},
#define BENCHMARKS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-bench"},
#define DISTURBS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-chaos"},
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
  };
}

// What another program of Lockstep says of its subcommands; nothing if it cannot be started.
std::vector<CommandFacts> facts_of_program(const std::string& program) {
  if (!has_companion(program)) {
    log_warning("there is no program {}: its subcommands are completed without their flags", companion_path(program));
    return {};
  }
  const auto [code, text] = run_shell(shell_quoted(companion_path(program)) + " " + kDescribeCommands);
  if (code == 0) return facts_in(text);
  log_warning("{} {} ended with code {}: its subcommands are completed without their flags", companion_path(program),
              kDescribeCommands, code);
  return {};
}

// In the order of `lockstep --help`.
std::vector<CommandFacts> facts_of_all_programs() {
  const std::vector<SubcommandEntry> entries = entries_of_completions();
  std::map<std::string, std::vector<CommandFacts>> by_program{{"lockstep", facts_of(entries)}};
  std::vector<CommandFacts> all;
  for (const SubcommandEntry& entry : entries) {
    if (by_program.count(entry.program) == 0) by_program[entry.program] = facts_of_program(entry.program);
    const std::size_t before = all.size();
    for (const CommandFacts& command : by_program[entry.program]) {
      if (command.path.substr(0, command.path.find(' ')) == entry.name) all.push_back(command);
    }
    if (all.size() == before) all.push_back({entry.name, entry.summary, {}, {}, false, ""});
  }
  return all;
}

using WriteScript = std::string (*)(const std::vector<CommandFacts>& commands);

struct Script {
  const char* name;
  WriteScript write;
  const char* file;  // in --output-dir, as its reader wants it to be called
};
constexpr Script kScripts[] = {{"bash", bash_completions, "lockstep"},
                               {"zsh", zsh_completions, "_lockstep"},
                               {"fish", fish_completions, "lockstep.fish"},
                               {"man", manual_page, "lockstep.1"}};

class Completions : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("shell", shell_, "shell whose script is printed: bash, zsh or fish; or man, for the manual page")
        ->check(CLI::IsMember({"bash", "zsh", "fish", "man"}));
    app.add_option("--output-dir", output_dir_,
                   "write all four to files in this folder instead: lockstep for bash, _lockstep for zsh, "
                   "lockstep.fish and lockstep.1");
    show_examples(app, {"source <(lockstep completions bash)", "lockstep completions zsh > ~/.zfunc/_lockstep",
                        "lockstep completions fish > ~/.config/fish/completions/lockstep.fish",
                        "lockstep completions man | man -l -"});
  }

  int run(const CommandStreams& streams) override {
    if (shell_.empty() == output_dir_.empty()) {
      throw UsageError(shell_.empty() ? "no shell was named"
                                      : "a shell cannot be combined with --output-dir, which writes for all shells",
                       "command line", "name bash, zsh, fish or man; or give --output-dir alone");
    }
    const std::vector<CommandFacts> commands = facts_of_all_programs();
    for (const Script& script : kScripts) {
      if (shell_ == script.name) fmt::print(streams.out, "{}", script.write(commands));
      if (!output_dir_.empty()) write_file_atomically(output_dir_ + "/" + script.file, script.write(commands));
    }
    return 0;
  }

 private:
  std::string shell_;
  std::string output_dir_;
};

}  // namespace

std::unique_ptr<Subcommand> make_completions() { return std::make_unique<Completions>(); }

}  // namespace lockstep
