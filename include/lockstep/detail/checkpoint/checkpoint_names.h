#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

/// How the checkpoints of one output folder are named.
class CheckpointNames {
 public:
  /// `PREFIX` and the step: "checkpoint-" for the Trainer, "checkpoint_" for Accelerate.
  static CheckpointNames numbered(std::string prefix = "checkpoint-") { return {std::move(prefix), true}; }
  /// One folder with this name, which the next save replaces.
  static CheckpointNames single(std::string name) { return {std::move(name), false}; }

  bool is_numbered() const { return is_numbered_; }
  std::string of(std::int64_t step) const { return is_numbered_ ? name_ + std::to_string(step) : name_; }
  /// Whether this is the name of a checkpoint.
  bool fits(const std::string& name) const { return is_numbered_ ? step_in(name).has_value() : name == name_; }
  /// The step in a name; nothing if the name has no step.
  std::optional<std::int64_t> step_in(const std::string& name) const;

 private:
  CheckpointNames(std::string name, bool is_numbered) : name_(std::move(name)), is_numbered_(is_numbered) {}

  std::string name_;
  bool is_numbered_;
};

}  // namespace lockstep
