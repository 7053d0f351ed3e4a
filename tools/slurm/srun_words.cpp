#include "tools/slurm/srun_words.h"

#include <algorithm>
#include <map>

#include "tools/slurm/slurm_options.h"

namespace lockstep {
namespace {

bool is_plain_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string file_name_of(const std::string& word) { return word.substr(word.rfind('/') + 1); }

std::vector<SlurmOption> options_of(const Words& words, std::size_t* program) {
  static const std::map<char, std::string> letters{
      {'N', "nodes"},      {'n', "ntasks"},       {'c', "cpus-per-task"}, {'t', "time"},
      {'J', "job-name"},   {'p', "partition"},    {'A', "account"},       {'o', "output"},
      {'e', "error"},      {'i', "input"},        {'w', "nodelist"},      {'x', "exclude"},
      {'C', "constraint"}, {'D', "chdir"},        {'d', "dependency"},    {'G', "gpus"},
      {'q', "qos"},        {'m', "distribution"}, {'a', "array"},         {'b', "begin"},
      {'M', "clusters"},   {'L', "licenses"},     {'F', "nodefile"},      {'B', "extra-node-info"},
      {'T', "threads"},    {'W', "wait"},         {'r', "relative"},      {'S', "core-spec"}};
  std::vector<SlurmOption> options;
  std::size_t at = 0;
  const auto next_word = [&]() -> std::optional<std::string> {
    if (at + 1 >= words.size() || words[at + 1][0] == '-') return std::nullopt;
    return words[++at];
  };
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word[1] != '-') {
      const auto letter = letters.find(word[1]);
      if (letter == letters.end()) continue;
      const bool is_apart = word.size() == 2;
      options.push_back({letter->second, is_apart ? next_word() : word.substr(2)});
      continue;
    }
    const std::size_t equals = word.find('=');
    SlurmOption option{word.substr(2, equals == std::string::npos ? equals : equals - 2), std::nullopt};
    const auto& known = slurm_options();
    const bool is_known = std::find(known.begin(), known.end(), option.name) != known.end();
    if (equals != std::string::npos) {
      option.value = word.substr(equals + 1);
    } else if (is_known ? !takes_no_value(option.name) : at + 1 < words.size() && is_plain_number(words[at + 1])) {
      option.value = next_word();
    }
    options.push_back(option);
  }
  *program = at;
  return options;
}

}  // namespace lockstep
