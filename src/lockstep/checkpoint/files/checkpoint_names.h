#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

/// How the checkpoints of one output folder are called.
class CheckpointNames {
 public:
  /// `PREFIX` and the step: "checkpoint-" as the Trainer has it, "checkpoint_" as Accelerate.
  static CheckpointNames numbered(std::string prefix = "checkpoint-") { return {std::move(prefix), true}; }
  /// One folder of this name, which the next save replaces.
  static CheckpointNames single(std::string name) { return {std::move(name), false}; }

  bool is_numbered() const { return is_numbered_; }
  std::string of(std::int64_t step) const { return is_numbered_ ? name_ + std::to_string(step) : name_; }
  /// Whether a checkpoint has this name.
  bool fits(const std::string& name) const { return is_numbered_ ? step_in(name).has_value() : name == name_; }
  /// The step that a name tells; nothing where it tells none.
  std::optional<std::int64_t> step_in(const std::string& name) const;

 private:
  CheckpointNames(std::string name, bool is_numbered) : name_(std::move(name)), is_numbered_(is_numbered) {}

  std::string name_;
  bool is_numbered_;
};

}  // namespace lockstep
