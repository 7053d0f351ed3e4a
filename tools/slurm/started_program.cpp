#include "tools/slurm/started_program.h"

#include <algorithm>
#include <set>

#include "tools/slurm/slurm_values.h"

namespace lockstep {
namespace {

// A word of a script as the program gets it. `expansion` takes the place of the "$" of what this shell expands.
std::string seen_by_program(const std::string& word, char expansion) {
  std::string text;
  char quote = '\0';
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (quote != '\'' && c == '\\' && i + 1 < word.size()) {
      const bool is_mark = std::string("$`\"\\\n").find(word[i + 1]) != std::string::npos;
      if (quote == '"' && !is_mark) text += c;
      text += word[++i];
    } else if (quote == '\0' ? c == '\'' || c == '"' : c == quote) {
      quote = quote == '\0' ? c : '\0';
    } else {
      text += quote != '\'' && (c == '$' || c == '`') ? expansion : c;
    }
  }
  return text;
}

Words seen_by_program(Words words, char expansion) {
  for (std::string& word : words) word = seen_by_program(word, expansion);
  return words;
}

// The text of "sh -c TEXT"; null if the words are not such a command.
const std::string* shell_text(const Words& words) {
  static const std::set<std::string> shells{"sh", "bash", "dash", "zsh", "ksh"};
  if (words.empty() || shells.count(file_name_of(words.front())) == 0) return nullptr;
  for (std::size_t i = 1; i + 1 < words.size() && !words[i].empty() && words[i][0] == '-'; ++i) {
    if (words[i][1] != '-' && words[i].find('c') != std::string::npos) return &words[i + 1];
  }
  return nullptr;
}

void look_into_shell(const std::string& text, StartedProgram& started) {
  const std::vector<ShellCommand> commands = shell_commands(text);
  bool has_trap = false;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    has_trap = has_trap || commands[i].words.front() == "trap";
    const Words words = seen_by_program(commands[i].words, '$');
    const auto launcher = launcher_of(words);
    if (!launcher) continue;
    started.words = words;
    started.launcher = launcher;
    started.is_outlived_by_shell = i + 1 < commands.size() && !has_trap;
    return;
  }
}

}  // namespace

StartedProgram started_by(const ShellCommand& command) {
  StartedProgram started;
  started.line = command.line;
  started.by_srun = file_name_of(command.words.front()) == "srun";
  Words words(command.words.begin() + (started.by_srun ? 1 : 0), command.words.end());
  std::size_t program = 0;
  if (started.by_srun) started.options = options_of(words, &program);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(std::min(program, words.size())));
  started.words = seen_by_program(std::move(words), kExpandedByScript);
  const Words outer = started.words;
  if (const std::string* const text = shell_text(outer)) {
    look_into_shell(*text, started);
    // "$@" stands for the words that follow, which may have the flags.
    const bool takes_more = started.launcher && text->find("$@") != std::string::npos;
    if (takes_more) started.words.insert(started.words.end(), outer.begin(), outer.end());
  } else {
    started.launcher = launcher_of(outer);
  }
  return started;
}

std::optional<int> number_among(const std::vector<SlurmOption>& options, const std::string& name) {
  std::optional<int> number;
  for (const SlurmOption& option : options) {
    if (option.name == name && option.value) number = slurm_number(*option.value);
  }
  return number;
}

}  // namespace lockstep
