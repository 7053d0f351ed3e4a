#include "tools/frame/command_line.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "lockstep/base/environment.h"
#include "lockstep/base/environment_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/processor/address_space.h"
#include "lockstep/base/signals.h"
#include "lockstep/base/text/flag_synonyms.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/launch/ranks/spare_message.h"
#include "lockstep/start/kernel_choice.h"
#include "lockstep/start/standard_streams.h"
#include "lockstep/start/start_variables.h"
#include "lockstep/version.h"
#include "tools/frame/command_facts.h"
#include "tools/frame/command_words.h"
#include "tools/frame/companion.h"
#include "tools/frame/overview.h"

namespace lockstep {
namespace {

constexpr int kFailed = 1;
constexpr int kNotUnderstood = 2;
constexpr const char* kEnvironment = "env";  // shows the values that the others refuse

// Standard error may be full or closed: then the text is lost, and only the exit code reports the failure.
void print_error(std::string_view text, const CommandStreams& streams) noexcept {
  streams.out.flush();
  streams.err << text << std::flush;
}

// Adds the limit that a shell has set to an error about memory, as the system, the C++ library and LibTorch word
// it: the host may have memory left that the process may not use.
std::string with_memory_limit(const std::string& text) {
  const auto limit = address_space_limit();
  const bool is_of_memory = text.find("t allocate memory") != std::string::npos ||  // can't, or Cannot
                            text.find("not enough memory") != std::string::npos ||
                            text.find("bad_alloc") != std::string::npos;
  if (!limit || !is_of_memory) return text;
  return text + fmt::format("\n  the limit on address space, ulimit -v, is {} MiB", *limit >> 20);
}

// @param name  of the subcommand; empty: no subcommand
void print_failure(const std::string& name, const std::string& text, const CommandStreams& streams) noexcept {
  try {
    const auto rank = env_string("RANK");
    const std::string who = name.empty() ? "lockstep" : "lockstep " + name;
    print_error(fmt::format("{}{}: error: {}\n", rank ? "[rank " + *rank + "] " : "", who,
                            printable_lines(with_memory_limit(text))),
                streams);
  } catch (const std::exception&) {  // out of memory for a longer text
    print_error("lockstep: error: not enough memory to say what failed\n", streams);
  }
}

// All ranks of a job refuse the same words and files. `lockstep run` shows what a rank has recorded, so ranks print
// nothing; torchrun shows it as a part of its own text, so the first rank prints it, too. A launcher gives each rank a
// session of its own: what another program records does not count there.
void refuse(const std::string& name, const std::string& text, const CommandStreams& streams) {
  const bool is_recorded = record_usage_error(text);
  const bool is_rank = ::getsid(0) == ::getpid();
  const bool is_further_one = env_string("RANK").value_or("0") != "0";
  const bool is_of_our_launcher = env_string("LOCKSTEP_GENERATION").has_value();
  const bool is_shown = is_recorded && is_rank && (is_further_one || is_of_our_launcher);
  if (!is_shown) print_failure(name, text, streams);
}

// A full disk is only noticed when the last bytes are written. Benchmarks and LibTorch write to stdout.
void require_written(std::ostream& out) {
  out.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && out.good()) return;
  throw Error("cannot write the output: " + errno_text(errno), "standard output", "write to a disk with free space");
}

// The C++ library's text does not mention that a thread could not be started, nor what to do.
std::string explain(const std::system_error& error) {
  const int code = error.code().value();
  const std::string text = error.what();
  const bool is_bare = text == error.code().message();  // other texts name a file or an action
  if (!is_bare || (code != EAGAIN && code != EPERM && code != ENOSYS)) return text;
  return text + ": a thread could not be started\n  fix: " +
         (code == EAGAIN ? "raise the limit on processes (ulimit -u, or pids.max of the container)"
                         : "allow clone3 and clone in the seccomp profile of the container");
}

// For a rank of a job: its launcher reads its error file.
int run_as_rank(Subcommand& subcommand, const CommandStreams& streams) {
  try {
    return subcommand.run(streams);
  } catch (const std::exception& error) {
    record_failure(error);
    throw;
  }
}

// Reads the command line. @return  the exit code if nothing else is to be done
std::optional<int> read_words(CLI::App& app, const SubcommandEntry& entry, const std::vector<std::string>& arguments,
                              const CommandStreams& streams) {
  try {
    std::vector<std::string> reversed = normalize(app, arguments);
    std::reverse(reversed.begin(), reversed.end());  // CLI11 takes them in reverse order
    app.parse(std::move(reversed));
    refuse_too_large(app);
    return std::nullopt;
  } catch (const CLI::Success& asked_for_help) {
    const int code = app.exit(asked_for_help, streams.out, streams.err);
    require_written(streams.out);
    return code;
  } catch (const CLI::ParseError& error) {
    const std::string name = entry.name + nested_names(app);
    refuse(name,
           fmt::format("{}\n  fix: 'lockstep {} --help' lists its flags", explain_words(error, app, arguments), name),
           streams);
    return kNotUnderstood;
  }
}

// A program after the flags is not an option, so CLI11 would not name it.
class FormatterWithProgram : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [FLAGS] [--] PROGRAM [ARGUMENTS of the program]...\n";
  }
};

int run_subcommand(const SubcommandEntry& entry, const std::vector<std::string>& arguments,
                   const CommandStreams& streams, DescribeError describe) {
  try {
    const std::unique_ptr<Subcommand> subcommand = entry.make();
    CLI::App app(entry.summary, "lockstep " + entry.name);
    subcommand->add(app);
    if (app.get_prefix_command()) app.formatter(std::make_shared<FormatterWithProgram>());
    if (const auto code = read_words(app, entry, arguments, streams)) return *code;
    if (entry.name != kEnvironment) require_readable_environment();
    const int code = run_as_rank(*subcommand, streams);
    require_written(streams.out);
    return code;
  } catch (const UsageError& error) {
    refuse(entry.name, error.what(), streams);
    return kNotUnderstood;
  } catch (const Error& error) {
    const FailureCause* const cause = cause_of(error);
    const bool is_refusal = cause != nullptr && cause->kind == FailureCause::Kind::Usage;
    if (is_refusal) refuse(entry.name, error.what(), streams);
    if (!is_refusal) print_failure(entry.name, error.what(), streams);
  } catch (const std::bad_alloc&) {
    print_failure(entry.name, "there is not enough memory for this request\n  fix: ask for less at once", streams);
  } catch (const std::length_error&) {
    print_failure(entry.name, "this request needs more memory than any machine has\n  fix: ask for less at once",
                  streams);
  } catch (const std::system_error& error) {
    print_failure(entry.name, explain(error), streams);
  } catch (const std::exception& error) {
    print_failure(entry.name, describe(error), streams);
  }
  return kFailed;
}

// Sets the variables that a computing process needs, for the program that this process becomes.
void set_start_variables(const std::string& subcommand) {
  try {
    for (const auto& [name, value] : variables_for_this_process(/*heap=*/true)) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    report_withheld_amx();
  } catch (const Error&) {
    if (subcommand != kEnvironment) throw;
  }
}

// A spare of `lockstep run --warm-spares` waits here if this process does not become another program, otherwise in that
// program. The library that waits was preloaded.
void wait_if_spare() {
  if (auto* const wait = reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, kSpareWait))) wait();
}

// The companion is in this program's folder, however this program was found.
[[noreturn]] void become(const std::string& companion, std::vector<std::string> arguments) {
  const std::string path = companion_program(companion);
  set_start_variables(arguments.front());
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  throw UsageError("cannot start " + path + ": " + errno_text(errno), "lockstep",
                   "build the target " + companion + " again");
}

int report_unknown(const std::string& typed, const std::vector<SubcommandEntry>& entries,
                   const CommandStreams& streams) {
  std::vector<std::string> names{"--help", "--version"};
  for (const SubcommandEntry& entry : entries) names.push_back(entry.name);
  const std::string synonym = subcommand_synonym(typed, names);
  const std::string hint = synonym.empty() ? did_you_mean(typed, names) : "; did you mean '" + synonym + "'?";
  print_error(fmt::format("lockstep: error: unknown {} '{}'{}\n  fix: 'lockstep --help' lists the subcommands\n",
                          typed[0] == '-' ? "flag" : "subcommand", typed, hint),
              streams);
  return kNotUnderstood;
}

}  // namespace

void show_examples(CLI::App& app, const std::vector<std::string>& command_lines) {
  std::string footer = "Examples:";
  for (const std::string& line : command_lines) footer += "\n  " + line;
  app.footer(footer);
}

namespace {

std::vector<std::string> with_help_as_flag(std::vector<std::string> words) {
  if (words.size() > 1 && words[0] == "help") return {words[1], "--help"};
  return words;
}

// Null: no subcommand is meant, or one that does not exist.
const SubcommandEntry* find_entry(const std::vector<SubcommandEntry>& entries, const std::vector<std::string>& words) {
  for (const SubcommandEntry& entry : entries) {
    if (!words.empty() && entry.name == words[0]) return &entry;
  }
  return nullptr;
}

int run_words(const std::vector<SubcommandEntry>& entries, const std::vector<std::string>& words,
              const CommandStreams& streams, DescribeError describe) {
  const SubcommandEntry* const entry = find_entry(entries, words);
  if (entry != nullptr && entry->make != nullptr) {
    return run_subcommand(*entry, {words.begin() + 1, words.end()}, streams, describe);
  }
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    fmt::print(streams.out, "{}", overview_text(entries));
  } else if (words[0] == kDescribeCommands) {
    fmt::print(streams.out, "{}", text_of_facts(facts_of(entries)));
  } else if (words[0] == "--version" || words[0] == "-V" || words[0] == "version") {
    fmt::print(streams.out, "lockstep {}\n", LOCKSTEP_VERSION);
  } else {
    return report_unknown(words[0], entries, streams);
  }
  require_written(streams.out);
  return words.empty() ? kNotUnderstood : 0;
}

int report_failure(const std::vector<std::string>& words, const std::exception& error, const CommandStreams& streams) {
  print_failure(words.empty() || words[0][0] == '-' ? "" : words[0], error.what(), streams);
  return kFailed;
}

}  // namespace

int run_command(const std::vector<SubcommandEntry>& entries, std::vector<std::string> words,
                const CommandStreams& streams, DescribeError describe) {
  words = with_help_as_flag(std::move(words));
  try {
    return run_words(entries, words, streams, describe);
  } catch (const std::exception& error) {
    return report_failure(words, error, streams);
  }
}

int run_command_line(const std::vector<SubcommandEntry>& entries, int argc, char** argv, DescribeError describe) {
  open_missing_streams();
  const CommandStreams streams = standard_streams();
  const std::vector<std::string> words = with_help_as_flag({argv + std::min(argc, 1), argv + argc});
  try {
    const SubcommandEntry* const entry = find_entry(entries, words);
    // A batch system may warn a job before its training has begun, which takes note of it then.
    if (entry != nullptr && entry->name == "train") hold_warning_signals();
    if (entry != nullptr && entry->make == nullptr) become(entry->program, words);
    wait_if_spare();
  } catch (const UsageError& error) {  // each further start of this rank would find the same
    refuse(words.front(), error.what(), streams);
    return kFailed;
  } catch (const std::exception& error) {
    return report_failure(words, error, streams);
  }
  return run_command(entries, words, streams, describe);
}

}  // namespace lockstep
