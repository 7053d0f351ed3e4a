// Finds errors in scripts for sbatch that should start data-parallel jobs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "lockstep/base/text/flag_name.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/launch/process/text_cursor.h"
#include "tools/slurm/job_launcher.h"
#include "tools/slurm/launcher_check.h"
#include "tools/slurm/sbatch_file.h"
#include "tools/slurm/shell_commands.h"
#include "tools/slurm/slurm_options.h"
#include "tools/slurm/slurm_time.h"
#include "tools/slurm/slurm_values.h"
#include "tools/slurm/srun_words.h"

namespace lockstep {
namespace {

// Whether `word` is an expansion or a redirection.
bool begins_no_program(const std::string& word) {
  TextCursor at(word);
  if (at.take("$<>({}&`")) return true;
  return !at.digits(1).empty() && at.take("<>");
}

// Commands that prepare a job or report on it, and do not train.
bool is_harmless(const std::string& word) {
  static const std::set<std::string> names{
      "export",     "set",    "source", ".",      "cd",    "echo",     "module", "ulimit", "mkdir",    "date",
      "for",        "case",   "select", "exit",   "wait",  "scontrol", "conda",  "trap",   "hostname", "nvidia-smi",
      "[",          "[[",     "test",   "true",   "false", ":",        "local",  "eval",   "declare",  "readonly",
      "unset",      "return", "break",  "cat",    "ls",    "cp",       "mv",     "rm",     "ln",       "head",
      "tail",       "sed",    "awk",    "grep",   "sleep", "printf",   "pwd",    "which",  "free",     "df",
      "nproc",      "lscpu",  "tee",    "sort",   "uniq",  "wc",       "tr",     "cut",    "touch",    "chmod",
      "pushd",      "popd",   "shopt",  "read",   "kill",  "continue", "squeue", "sacct",  "sinfo",    "sbcast",
      "scancel",    "env",    "rsync",  "tar",    "unzip", "function", "shift",  "curl",   "wget",     "openssl",
      "micromamba", "mamba",  "ml",     "sbatch", "umask", "type"};
  return names.count(file_name_of(word)) != 0 || begins_no_program(word);
}

// The required form of an option's value on a #SBATCH line; nothing if any value is valid.
std::optional<std::string> wrong_value(const SlurmOption& option) {
  static const std::set<std::string> numbers{"ntasks",          "ntasks-per-node", "cpus-per-task", "ntasks-per-socket",
                                             "ntasks-per-core", "ntasks-per-gpu"};
  static const std::set<std::string> others{"gpus",      "gpus-per-node", "gpus-per-task", "mem",    "gres",
                                            "partition", "account",       "job-name",      "output", "signal"};
  const bool is_number_of = numbers.count(option.name) != 0;
  const bool is_nodes = option.name == "nodes", is_time = option.name == "time" || option.name == "time-min";
  if (!is_number_of && !is_nodes && !is_time && others.count(option.name) == 0) return std::nullopt;
  if (!option.value || option.value->empty()) return "a value";
  if (option.value->find('$') != std::string::npos) return std::nullopt;
  if (is_number_of && !is_slurm_count(*option.value)) return "a number from 1";
  if (is_nodes && !is_slurm_nodes(*option.value)) return "a number from 1, or a range of them";
  if (is_time && !slurm_seconds(*option.value) && !is_slurm_unlimited(*option.value)) {
    return "minutes, minutes:seconds, hours:minutes:seconds, or days-hours[:minutes[:seconds]]";
  }
  if (option.name == "mem" && !is_slurm_memory(*option.value)) return "a number and K, M, G or T, as 64G";
  return std::nullopt;
}

class SbatchCheck {
 public:
  std::vector<FileFinding> run(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      if (!line.empty() && line.back() == '\r')
        find("the line ends in a carriage return", "convert it to Unix's line ends");
      look_at(line);
    }
    const std::vector<ShellCommand> commands = shell_commands(text);
    for (const ShellCommand& command : commands) look_at_command(command);
    look_at_the_whole(commands, text);
    std::stable_sort(findings_.begin(), findings_.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    return std::move(findings_);
  }

 private:
  void find(const std::string& problem, const std::string& fix) { findings_.push_back({line_, problem, fix}); }

  void look_at(const std::string& line) {
    if (line_ == 1 && line.rfind("#!", 0) != 0) {
      find("the first line names no interpreter, and sbatch refuses the file", "begin it with #!/bin/bash");
    }
    if (line.rfind("#SBATCH", 0) == 0) return look_at_directive(line);
    if (line.empty() || line[0] == '#') return look_at_comment(line);
    if (first_command_ == 0 && line.find_first_not_of(" \t\r") != std::string::npos) first_command_ = line_;
  }

  void look_at_directive(const std::string& line) {
    if (first_command_ > 0) {
      find("sbatch reads no #SBATCH after the first command, which is in line " + std::to_string(first_command_),
           "move it above");
    }
    if (line.find('$') != std::string::npos) {
      find("sbatch replaces no variables in #SBATCH lines",
           "write the value itself, or give it on sbatch's command line");
    }
    std::istringstream stream(line.substr(std::string("#SBATCH").size()));
    Words words;
    for (std::string word; stream >> word && word[0] != '#';) words.push_back(word);
    std::size_t end = 0;
    for (const SlurmOption& option : options_of(words, &end)) {
      check_name(option.name);
      if (const auto wanted = wrong_value(option)) {
        find(fmt::format(
                 "--{} {}", option.name,
                 option.value && !option.value->empty() ? "is \"" + printable(*option.value) + "\"" : "has no value"),
             "give it " + *wanted);
      }
      values_[option.name] = {option.value.value_or(""), line_};
    }
  }

  // "4 nodes" in a comment, beside --nodes=8.
  void look_at_comment(const std::string& line) {
    const std::string nodes = nodes_in_comment(line);
    if (!nodes.empty()) comment_nodes_ = {nodes, line_};
  }

  void look_at_command(const ShellCommand& command) {
    line_ = command.line;
    const Words& words = command.words;
    if (file_name_of(words.front()) == "srun") {
      std::size_t program = 0;
      const Words arguments(words.begin() + 1, words.end());
      for (const SlurmOption& option : options_of(arguments, &program)) check_name(option.name);
      has_srun_ = has_srun_ || program >= arguments.size() || !is_harmless(arguments[program]);
    } else if (!is_harmless(words.front())) {
      unstarted_.emplace_back(line_, launcher_at(words, 0).has_value());
    }
  }

  void check_name(const std::string& name) {
    const auto& known = slurm_options();
    if (std::find(known.begin(), known.end(), name) != known.end()) return;
    if (name == "num_gpus" || name == "num-gpus") {
      find("Slurm has no --" + name, "--gpus N for the job, --gpus-per-node N, or --gpus-per-task 1 with --ntasks N");
      return;
    }
    std::vector<std::string> flags;
    for (const std::string& each : known) flags.push_back("--" + each);
    find("Slurm has no --" + printable(name) + did_you_mean("--" + with_hyphens(name), flags),
         "see the manual of sbatch and srun");
  }

  std::optional<int> number_of(const std::string& option) const {
    const auto found = values_.find(option);
    if (found == values_.end()) return std::nullopt;
    return slurm_number(found->second.text);
  }

  void look_at_the_whole(const std::vector<ShellCommand>& commands, const std::string& text) {
    const int nodes = number_of("nodes").value_or(1);
    const int per_node = number_of("ntasks-per-node").value_or(1);
    const int tasks = number_of("ntasks").value_or(nodes * per_node);
    look_at_signal();
    if (!has_srun_ && (tasks > 1 || nodes > 1)) look_at_unstarted(nodes, per_node, tasks);
    const auto gpus = values_.count("gpus-per-node") != 0 ? number_of("gpus-per-node") : number_of("gres");
    if (gpus && values_.count("ntasks-per-node") != 0 && *gpus != per_node && !starts_launcher_by_srun(commands)) {
      line_ = values_.at(values_.count("gpus-per-node") != 0 ? "gpus-per-node" : "gres").line;
      find(fmt::format("{} GPUs per node for {} tasks per node: a rank takes one", *gpus, per_node),
           "make the two numbers equal");
    }
    if (!comment_nodes_.text.empty() && values_.count("nodes") != 0 && comment_nodes_.text != std::to_string(nodes)) {
      line_ = comment_nodes_.line;
      find(fmt::format("the comment says {} nodes, --nodes says {}", printable(comment_nodes_.text), nodes),
           "correct one of them");
    }
    look_at_launchers(commands, text);
  }

  // "2-4" nodes may be four; so may four tasks that stand one on each host.
  int most_nodes(std::optional<int> tasks, std::optional<int> per_node) const {
    const auto nodes = values_.find("nodes");
    if (nodes == values_.end()) return tasks && per_node ? std::max(1, *tasks / std::max(1, *per_node)) : 1;
    const std::string& text = nodes->second.text;
    const std::size_t dash = text.rfind('-');
    return slurm_number(dash == std::string::npos ? text : text.substr(dash + 1)).value_or(1);
  }

  void look_at_launchers(const std::vector<ShellCommand>& commands, const std::string& text) {
    const auto tasks = number_of("ntasks"), per_node = number_of("ntasks-per-node");
    AskedOfSlurm asked;
    asked.nodes = most_nodes(tasks, per_node);
    asked.tasks_per_node = per_node.value_or(std::max(1, tasks.value_or(1) / std::max(1, asked.nodes)));
    if (const auto signal = values_.find("signal"); signal != values_.end()) {
      asked.signal = signal->second.text;
      asked.signal_line = signal->second.line;
    }
    asked.sets_places = text.find("PET_NODE_RANK") != std::string::npos || text.find("PET_RDZV") != std::string::npos;
    asked.sets_address = text.find("MASTER_ADDR=") != std::string::npos;
    for (const auto& found : {check_places(commands, asked), check_warning(commands, asked, is_harmless)}) {
      findings_.insert(findings_.end(), found.begin(), found.end());
    }
  }

  // "--signal=B:USR1@120"; without a time, Slurm uses a minute.
  void look_at_signal() {
    const auto signal = values_.find("signal"), time = values_.find("time");
    if (signal == values_.end() || time == values_.end()) return;
    const auto limit_s = slurm_seconds(time->second.text);
    const int lead_s = slurm_signal_lead(signal->second.text).value_or(60);
    if (!limit_s || !is_signalled_at_start(*limit_s, lead_s)) return;
    line_ = signal->second.line;
    find(fmt::format("--signal comes {} s before the limit, which --time sets to {} s: the job would be signalled as "
                     "soon as it starts",
                     lead_s, *limit_s),
         "raise --time, or signal later");
  }

  void look_at_unstarted(int nodes, int per_node, int tasks) {
    if (unstarted_.empty()) {
      line_ = 0;
      find("nothing in the file starts a program", "end it with srun and the program");
    }
    for (const auto& [line, is_launcher] : unstarted_) {
      line_ = line;
      if (is_launcher) {
        if (nodes > 1) {
          find("without srun this launcher runs on the first node only",
               fmt::format("srun --nodes={} --ntasks-per-node=1 before it, with --nnodes {} and the node's rank", nodes,
                           nodes));
        }
        continue;
      }
      find(fmt::format("without srun this is one process on the first node, where the job has {} tasks ({} nodes, {} "
                       "per node)",
                       tasks, nodes, per_node),
           "put srun before it");
    }
  }

  struct Place {
    std::string text;
    int line = 0;
  };
  int line_ = 0;
  int first_command_ = 0;
  bool has_srun_ = false;
  std::map<std::string, Place> values_;  // #SBATCH options
  Place comment_nodes_;
  std::vector<std::pair<int, bool>> unstarted_;  // lines of commands that run without srun; true: a launcher
  std::vector<FileFinding> findings_;
};

}  // namespace

std::vector<FileFinding> check_sbatch_file(const std::string& text) { return SbatchCheck().run(text); }

}  // namespace lockstep
