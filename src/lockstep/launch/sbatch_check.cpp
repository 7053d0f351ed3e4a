// What is wrong with scripts for sbatch that are to start data-parallel jobs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

#include "lockstep/base/nearest_name.h"
#include "lockstep/launch/sbatch_file.h"
#include "lockstep/launch/slurm_options.h"

namespace lockstep {
namespace {

class SbatchCheck {
 public:
  std::vector<SbatchFinding> run(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      if (!line.empty() && line.back() == '\r')
        find("the line ends in a carriage return", "convert it to Unix's line ends");
      look_at(line);
    }
    look_at_the_whole();
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
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos) look_at_command(line.substr(begin));
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
    check_options(line.substr(std::string("#SBATCH").size()));
    static const std::regex option(R"(--([a-z-]+)(?:[= ]\s*(\S+))?)");
    std::smatch match;
    if (std::regex_search(line, match, option)) values_[match[1]] = {match[2], line_};
  }

  // "4 nodes" in a comment, beside --nodes=8.
  void look_at_comment(const std::string& line) {
    static const std::regex nodes(R"((\d+)\s+nodes?\b)");
    std::smatch match;
    if (std::regex_search(line, match, nodes)) comment_nodes_ = {match[1], line_};
  }

  void look_at_command(const std::string& command) {
    if (first_command_ == 0) first_command_ = line_;
    static const std::regex harmless(
        R"((export|set|source|\.|cd|echo|module|ulimit|mkdir|date|if|then|fi|for|do|done|exit|[A-Za-z_]\w*=|scontrol|hostname|conda|nvidia-smi|wait|trap)\b.*|[A-Za-z_]\w*=.*|\$.*|\}.*|\{.*)");
    static const std::regex srun(R"((\S+/)?srun\b.*)");
    if (std::regex_match(command, srun)) {
      has_srun_ = true;
      check_options(srun_part(command));
    } else if (!std::regex_match(command, harmless)) {
      unstarted_.emplace_back(line_, command);
    }
  }

  // srun's own options: what stands before the first word that is none.
  static std::string srun_part(const std::string& command) {
    std::istringstream words(command);
    std::string part, word;
    for (words >> word; words >> word && word[0] == '-';) part += " " + word;
    return part;
  }

  void check_options(const std::string& text) {
    static const std::regex option(R"((?:^|\s)--([A-Za-z][\w-]*))");
    for (std::sregex_iterator match(text.begin(), text.end(), option), end; match != end; ++match) {
      const std::string name = (*match)[1];
      const auto& known = slurm_options();
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      if (name == "num_gpus" || name == "num-gpus") {
        find("Slurm has no --" + name, "--gpus N for the job, --gpus-per-node N, or --gpus-per-task 1 with --ntasks N");
        continue;
      }
      std::string hyphens = name;
      std::replace(hyphens.begin(), hyphens.end(), '_', '-');
      const std::string near = nearest_name(hyphens, known);
      find("Slurm has no --" + name,
           near.empty() ? "see the manual of sbatch and srun" : "did you mean --" + near + "?");
    }
  }

  std::optional<int> number_of(const std::string& option) const {
    const auto found = values_.find(option);
    if (found == values_.end()) return std::nullopt;
    static const std::regex digits(R"((?:.*:)?(\d{1,6}))");  // "gpu:4", "gpu:a100:4"
    std::smatch match;
    if (!std::regex_match(found->second.text, match, digits)) return std::nullopt;
    return std::stoi(match[1]);
  }

  void look_at_the_whole() {
    const int nodes = number_of("nodes").value_or(1);
    const int per_node = number_of("ntasks-per-node").value_or(1);
    const int tasks = number_of("ntasks").value_or(nodes * per_node);
    if (!has_srun_ && (tasks > 1 || nodes > 1)) look_at_unstarted(nodes, per_node, tasks);
    const auto gpus = values_.count("gpus-per-node") != 0 ? number_of("gpus-per-node") : number_of("gres");
    if (gpus && values_.count("ntasks-per-node") != 0 && *gpus != per_node) {
      line_ = values_.at(values_.count("gpus-per-node") != 0 ? "gpus-per-node" : "gres").line;
      find(fmt::format("{} GPUs per node for {} tasks per node: a rank takes one", *gpus, per_node),
           "make the two numbers equal");
    }
    if (!comment_nodes_.text.empty() && values_.count("nodes") != 0 && comment_nodes_.text != std::to_string(nodes)) {
      line_ = comment_nodes_.line;
      find(fmt::format("the comment says {} nodes, --nodes says {}", comment_nodes_.text, nodes),
           "correct one of them");
    }
  }

  void look_at_unstarted(int nodes, int per_node, int tasks) {
    static const std::regex launcher(R"((\S*/)?(torchrun|accelerate\s+launch|lockstep\s+(run|launch)|deepspeed)\b.*)");
    if (unstarted_.empty()) {
      line_ = 0;
      find("nothing in the file starts a program", "end it with srun and the program");
    }
    for (const auto& [line, command] : unstarted_) {
      line_ = line;
      if (std::regex_match(command, launcher)) {
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
  std::map<std::string, Place> values_;  // of #SBATCH options
  Place comment_nodes_;
  std::vector<std::pair<int, std::string>> unstarted_;  // commands that srun does not start
  std::vector<SbatchFinding> findings_;
};

}  // namespace

std::vector<SbatchFinding> check_sbatch_file(const std::string& text) { return SbatchCheck().run(text); }

}  // namespace lockstep
