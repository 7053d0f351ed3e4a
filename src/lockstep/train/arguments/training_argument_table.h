#pragma once

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// Where an argument lives: a member of one of the types that arguments have.
using TrainingArgumentMember =
    std::variant<std::string TrainingArguments::*, bool TrainingArguments::*, std::int64_t TrainingArguments::*,
                 double TrainingArguments::*, std::optional<std::string> TrainingArguments::*,
                 std::optional<bool> TrainingArguments::*, std::optional<std::int64_t> TrainingArguments::*,
                 std::optional<double> TrainingArguments::*, std::vector<std::string> TrainingArguments::*,
                 nlohmann::json TrainingArguments::*>;

/// Everything about one argument but its default, which is the member's own.
struct TrainingArgumentRow {
  std::string name;
  TrainingArgumentMember member;
  std::string help;
  std::vector<std::string> choices{};  ///< of texts; empty: any
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;  ///< `least` itself is not allowed
  std::vector<std::string> aliases{};
};

/// The one table from which files, flags, checks and help texts are made.
const std::vector<TrainingArgumentRow>& training_argument_table();

/// The row of `name` or of its alias. Null if there is none.
const TrainingArgumentRow* find_training_argument(const std::string& name);

/// Why an argument of Hugging Face's is not here; empty for names that are not theirs either.
std::string unsupported_training_argument(const std::string& name);
/// The names that unsupported_training_argument knows.
std::vector<std::string> unsupported_training_arguments();

}  // namespace lockstep
