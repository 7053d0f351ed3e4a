#include "tools/lockstep/train/problem_type.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/transform_dataset.h"
#include "lockstep/detail/models/sequence_head.h"

namespace lockstep {
namespace {

constexpr const char* kRegression = "regression";
const std::vector<std::string> kMetrics{"mse", "pearson", "spearmanr"};

bool is_decimal(const std::string& text) { return parse_decimal(text).has_value(); }

bool has_fraction(const std::string& text) {
  const std::optional<double> number = parse_decimal(text);
  return number && *number != std::floor(*number);
}

// A folder without its own head says nothing: two labels are the default of config.json.
std::optional<ProblemType> problem_of_folder(const std::string& model) {
  if (!std::filesystem::is_directory(model)) return std::nullopt;
  const SequenceHead head = read_sequence_head(ConfigFile(model));
  if (!head.problem_type && head.num_labels() == 1) return ProblemType::Regression;
  return head.problem_type;
}

[[noreturn]] void refuse_no_class(const TaskFlags& flags, const std::string& label) {
  throw UsageError(fmt::format("the label \"{}\" is a number with a fraction, and others are not numbers or "
                               "--problem-type asks for classes",
                               printable(label)),
                   flags.train_file, "give classes, or numbers alone; --label-column names the column");
}

}  // namespace

LabelProblem label_problem(const TaskFlags& flags, const std::vector<std::string>& labels) {
  const std::optional<ProblemType> of_folder = problem_of_folder(flags.model);
  if (of_folder == ProblemType::MultiLabel) {
    throw UsageError(
        "the model gives each text several labels, and files with several labels a row are not read",
        flags.model + "/config.json, field \"problem_type\"",
        "train it in a program, with labels of shape [size, num_labels]; lockstep predict answers with it");
  }
  const bool folder_has_numbers = of_folder == ProblemType::Regression;
  if (labels.empty()) return folder_has_numbers ? LabelProblem::Numbers : LabelProblem::Classes;
  const auto fraction = std::find_if(labels.begin(), labels.end(), has_fraction);
  const bool are_numbers = std::all_of(labels.begin(), labels.end(), is_decimal);
  const bool is_asked = flags.problem_type == kRegression;
  const bool may_be_numbers = flags.problem_type.empty() && are_numbers;
  if (is_asked || (may_be_numbers && (folder_has_numbers || fraction != labels.end()))) return LabelProblem::Numbers;
  if (fraction != labels.end()) refuse_no_class(flags, *fraction);
  return LabelProblem::Classes;
}

std::shared_ptr<const Dataset> with_numbers_as_labels(std::shared_ptr<const Dataset> dataset,
                                                      const std::map<std::string, std::int64_t>& labels,
                                                      const std::string& path) {
  const at::Tensor numbers = at::empty({static_cast<std::int64_t>(labels.size())}, at::kFloat);
  for (const auto& [text, index] : labels) {
    const std::optional<double> number = parse_decimal(text);
    if (!number) {
      throw UsageError(fmt::format("the label \"{}\" is not a number, and the model learns numbers", printable(text)),
                       path, "give numbers, or name another column: --label-column");
    }
    numbers.data_ptr<float>()[index] = static_cast<float>(*number);
  }
  return std::make_shared<TransformDataset>(std::move(dataset), [numbers](Batch batch) {
    at::Tensor& of_batch = batch.at("labels");
    of_batch = numbers.index_select(0, of_batch);
    return batch;
  });
}

void set_metrics_of_numbers(const TaskFlags& flags, TrainingTask& task) {
  for (const std::string& name : flags.metrics) {
    if (std::find(kMetrics.begin(), kMetrics.end(), name) != kMetrics.end()) continue;
    throw UsageError("--metrics " + name + ", and the labels are numbers", "command line",
                     fmt::format("take some of {}", fmt::join(kMetrics, ", ")));
  }
  task.metric_names = flags.metrics.empty() ? kMetrics : flags.metrics;
  task.metrics = [wanted = task.metric_names, all = regression_metrics()](const EvalPrediction& evaluation) {
    const Metrics computed = all(evaluation);
    Metrics chosen;
    for (const std::string& name : wanted) chosen[name] = computed.at(name);
    return chosen;
  };
}

}  // namespace lockstep
