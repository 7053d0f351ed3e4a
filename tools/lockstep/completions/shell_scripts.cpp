#include "tools/lockstep/completions/shell_scripts.h"

namespace lockstep {

std::string case_of_paths(const std::vector<CommandFacts>& commands, const char* between) {
  std::string text;
  for (const CommandFacts& command : commands) {
    text += (text.empty() ? "'" : std::string(between) + "'") + (is_outermost(command) ? " " : "") + command.path + "'";
  }
  return text;
}

std::string short_help(const OptionFacts& option) {
  constexpr std::size_t kMost = 70;
  const std::string first = option.help.substr(0, option.help.find_first_of(";\n"));
  if (first.size() <= kMost) return first;
  const std::size_t blank = first.rfind(' ', kMost);
  return first.substr(0, blank == std::string::npos ? kMost : blank) + " ...";
}

}  // namespace lockstep
