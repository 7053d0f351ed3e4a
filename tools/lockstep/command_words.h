// What the words of a command line mean: flags in both spellings, and what was probably meant by those that do not
// exist.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// " Did you mean 'train'?"; empty if none of `names` is near to what was typed.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names);

/// Rewrites `--some_flag` to `--some-flag` where the latter exists, up to the program that `run` starts: what follows
/// it belongs to the program. @throws CLI::ExtrasError  for a flag before the program that does not exist
std::vector<std::string> normalize(CLI::App& root, std::vector<std::string> arguments);

/// CLI11 takes the nearest number that fits for one that does not. @throws CLI::ValidationError  for such a number
void refuse_too_large(const CLI::App& app);

/// Why the command line was not understood, with what was probably meant.
std::string explain_words(const CLI::ParseError& error, const CLI::App& app, const std::vector<std::string>& arguments);

/// Of `lockstep bench step`: " step".
std::string nested_names(const CLI::App& app);

}  // namespace lockstep
