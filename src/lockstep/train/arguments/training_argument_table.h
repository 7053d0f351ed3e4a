#pragma once

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// The member that holds an argument, of one of the types that arguments have.
using TrainingArgumentMember =
    std::variant<std::string TrainingArguments::*, bool TrainingArguments::*, std::int64_t TrainingArguments::*,
                 double TrainingArguments::*, std::optional<std::string> TrainingArguments::*,
                 std::optional<bool> TrainingArguments::*, std::optional<std::int64_t> TrainingArguments::*,
                 std::optional<double> TrainingArguments::*, std::vector<std::string> TrainingArguments::*,
                 std::optional<std::vector<std::string>> TrainingArguments::*, nlohmann::json TrainingArguments::*>;

/// Everything about one argument except its default, which is the member's own.
struct TrainingArgumentRow {
  std::string name;
  TrainingArgumentMember member;
  std::string help;
  std::vector<std::string> choices{};  ///< for texts; empty: any
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;  ///< `least` itself is not allowed
  std::vector<std::string> aliases{};
};

/// The single table from which files, flags, checks and help texts are made.
const std::vector<TrainingArgumentRow>& training_argument_table();

/// The row of `name` or of its alias; null if it is unknown.
const TrainingArgumentRow* find_training_argument(const std::string& name);

/// The flag of `lockstep train` that stands for an argument of Hugging Face's example scripts which is none of its
/// Trainer, such as "--model" for model_name_or_path; empty for other names.
std::string script_flag(const std::string& name);
/// Why one of Hugging Face's arguments is not supported; empty if Hugging Face does not have it either.
std::string unsupported_training_argument(const std::string& name);
/// What to do in its place, for the same names.
std::string fix_of_unsupported_argument(const std::string& name);
/// The names for which unsupported_training_argument gives a reason.
std::vector<std::string> unsupported_training_arguments();

}  // namespace lockstep
