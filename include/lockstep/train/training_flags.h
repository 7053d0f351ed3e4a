#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/train/training_arguments.h"

namespace CLI {
class App;
}

namespace lockstep {

/// A flag for each training argument on a command line, with hyphens or underscores: `--learning-rate 2e-5`,
/// `--evaluation_strategy epoch`, `--fuse false`; and `--config FILE`, a JSON file with arguments, over which flags
/// win.
class TrainingFlags {
 public:
  /// Declares them. `this` must stay where it is until the command line was read.
  /// @param names  of these arguments alone; empty: of all. A file may name any: it is that of the training
  void add(CLI::App& app, const std::vector<std::string>& names = {});
  /// What file and flags set, upon `defaults`. @throws UsageError  as set_training_argument and
  /// check_training_arguments
  TrainingArguments arguments(TrainingArguments defaults = {}) const;
  /// Whether a flag, or its alias, was given on the command line.
  bool given(const std::string& name) const;

 private:
  std::string config_;
  std::vector<std::pair<std::string, std::string>> given_;  // name and text, in order
};

}  // namespace lockstep
