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

/// Command-line flags for the training arguments, with hyphens or underscores: `--learning-rate 2e-5`,
/// `--evaluation_strategy epoch`, `--fuse false`; and `--config FILE`, a JSON file with arguments. Flags override the
/// file.
class TrainingFlags {
 public:
  /// Declares the flags. This object must stay in place until the command line was read.
  /// @param names  declare only these arguments; empty: all. A file may set any argument of the training
  void add(CLI::App& app, const std::vector<std::string>& names = {});
  /// `defaults`, changed by the file and the flags. @throws UsageError  as set_training_argument and
  /// check_training_arguments
  TrainingArguments arguments(TrainingArguments defaults = {}) const;
  /// Whether a flag, or its alias, was given on the command line.
  bool given(const std::string& name) const;

 private:
  std::string config_;
  std::vector<std::pair<std::string, std::string>> given_;  // name and text, in order
};

}  // namespace lockstep
