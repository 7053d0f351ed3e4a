// The words of a command line: flags in both spellings, and suggestions for those that do not exist.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// Rewrites `--some_flag` to `--some-flag` if the latter exists, up to the program that `run` starts; later words
/// belong to that program. @throws CLI::ExtrasError  for an unknown flag before the program
std::vector<std::string> normalize(CLI::App& root, std::vector<std::string> arguments);

/// CLI11 reads a number that does not fit as the nearest one that does. @throws CLI::ValidationError  for such a number
void refuse_too_large(const CLI::App& app);

/// Why the command line was not understood, with suggestions.
std::string explain_words(const CLI::ParseError& error, const CLI::App& app, const std::vector<std::string>& arguments);

/// The nested subcommand: " step" for `lockstep bench step`.
std::string nested_names(const CLI::App& app);

}  // namespace lockstep
