#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/frame/command_line.h"

namespace lockstep {

/// A flag or a positional word of a command, as the command itself declares it.
struct OptionFacts {
  std::vector<std::string> names;    ///< with their dashes, "--some-flag" and "-s"; of a positional word its name
  std::string value;                 ///< what it takes, such as TEXT; empty: nothing
  std::vector<std::string> choices;  ///< all values that it takes; empty: others, too
  std::string usual;                 ///< its default, if it shows one
  std::string help;
  bool is_positional = false;
  bool is_required = false;
};

/// A subcommand, or one inside of another.
struct CommandFacts {
  std::string path;  ///< "config default"
  std::string summary;
  std::vector<OptionFacts> options;
  std::vector<std::string> inner;  ///< names of subcommands inside of it
  bool starts_program = false;     ///< words after its own are a program and its arguments
  std::string footer;              ///< the end of its help: examples
};

/// Those that the entries make, in their order, inner ones behind the one that they belong to. Entries of other
/// programs are left out.
std::vector<CommandFacts> facts_of(const std::vector<SubcommandEntry>& entries);

/// As JSON, by which `lockstep-torch` and `lockstep-bench` tell `lockstep` about theirs.
std::string text_of_facts(const std::vector<CommandFacts>& commands);
/// @throws Error  if the text is not of that form
std::vector<CommandFacts> facts_in(const std::string& text);

/// The word with which a program of Lockstep is asked for its facts.
constexpr const char* kDescribeCommands = "--describe-commands";

}  // namespace lockstep
