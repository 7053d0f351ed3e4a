#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/models/config_file.h"

namespace at {
class Tensor;
}

namespace lockstep {

struct LossSum;

enum class ProblemType { Regression, SingleLabel, MultiLabel };

/// What the outputs of a sequence classifier mean.
struct SequenceHead {
  std::vector<std::string> labels = {"LABEL_0", "LABEL_1"};  ///< one name for each output
  std::optional<ProblemType> problem_type;  ///< default: decided by the number of labels and their dtype

  std::int64_t num_labels() const { return static_cast<std::int64_t>(labels.size()); }
  /// Sets the names to LABEL_0, ..., LABEL_n-1.
  void set_num_labels(std::int64_t count);
};

/// The type that Hugging Face's files call `name`. @throws Error  if there is none
ProblemType parse_problem_type(const std::string& name);

/// Reads "id2label", "num_labels" and "problem_type". @throws Error  naming file and field
SequenceHead read_sequence_head(const ConfigFile& file);
/// Sets "id2label", "label2id" and "problem_type".
void write_sequence_head(const SequenceHead& head, nlohmann::json& json);

/// The outputs as Hugging Face's pipeline "text-classification" shows them: themselves for "regression"; the logistic
/// function of each if a text has several labels or the model one; else the softmax of each row.
/// @param outputs  [..., num_labels]
at::Tensor shown_scores(const SequenceHead& head, const at::Tensor& outputs);

/// The loss of Hugging Face's sequence classifiers, summed: squared error for one label, cross entropy for whole-number
/// labels, binary cross entropy for others. `count` is the number of terms that Hugging Face's mean divides by.
/// @param scores  [size, num_labels]
/// @param labels  [size]; or [size, num_labels] for regression with several outputs and for multi-label classification
/// @param model   named in errors
/// @throws Error  if shapes, dtypes or values do not fit the head
LossSum sequence_loss(const SequenceHead& head, const at::Tensor& scores, const at::Tensor& labels,
                      const std::string& model);

}  // namespace lockstep
