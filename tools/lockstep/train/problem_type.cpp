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
#include "tools/lockstep/train/label_sets.h"

namespace lockstep {
namespace {

constexpr const char* kRegression = "regression";
constexpr const char* kMultiLabel = "multi_label_classification";

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

// The place of the first row with this label, which is a number; the file, if --max-train-samples leaves such rows out.
std::string place_of(const TextDataset& rows, std::int64_t label, const std::string& file) {
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    if (rows.get(row).label == label) return rows.where(row);
  }
  return file;
}

[[noreturn]] void refuse_no_class(const std::string& label, const std::string& where) {
  throw UsageError(
      fmt::format(
          "the label \"{}\" is a number with a fraction, but others are not numbers or --problem-type asks for classes",
          printable(label)),
      where, "give classes, or only numbers; --label-column names the column");
}

// Whether the labels are sets; refuses flags, folder and labels that disagree.
bool are_sets(const TaskFlags& flags, const std::vector<std::string>& labels, bool folder_has_sets) {
  const auto is_list = [](const std::string& label) { return parse_label_list(label).has_value(); };
  const auto other = std::find_if_not(labels.begin(), labels.end(), is_list);
  const bool has_columns = flags.label_columns.size() > 1;
  if (flags.problem_type.empty() ? has_columns || other == labels.end() : flags.problem_type == kMultiLabel) {
    if (other == labels.end()) return true;
    throw UsageError(
        fmt::format("the label \"{}\" is not a list, but each text is to have several labels", printable(*other)),
        flags.train_file,
        R"(give lists, as ["rude","threat"], or name one column of 0 and 1 for each label: --label-column)");
  }
  if (has_columns) {
    throw UsageError(fmt::format("there are {} label columns, but --problem-type {} has one",
                                 flags.label_columns.size(), flags.problem_type),
                     "--label-column", "name one, or use --problem-type multi_label_classification");
  }
  if (!folder_has_sets || !flags.problem_type.empty()) return false;
  throw UsageError("the model gives each text several labels, but the file has one label per row",
                   flags.model + "/config.json, field \"problem_type\"",
                   "give lists of labels, or one column of 0 and 1 for each label; --problem-type "
                   "single_label_classification makes a new head for classes");
}

// Sets those of the metrics that `all` computes and --metrics asks for; by default all.
void choose_metrics(const TaskFlags& flags, const std::vector<std::string>& known, const char* labels,
                    const ComputeMetrics& all, TrainingTask& task) {
  for (const std::string& name : flags.metrics) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw UsageError(fmt::format("--metrics {} cannot be used: {}", name, labels), "command line",
                     fmt::format("take some of {}", fmt::join(known, ", ")));
  }
  task.metric_names = flags.metrics.empty() ? known : flags.metrics;
  task.metrics = [wanted = task.metric_names, all](const EvalPrediction& evaluation) {
    const Metrics computed = all(evaluation);
    Metrics chosen;
    for (const std::string& name : wanted) chosen[name] = computed.at(name);
    return chosen;
  };
}

}  // namespace

std::vector<std::string> texts_of_labels(const std::map<std::string, std::int64_t>& labels) {
  std::vector<std::string> names(labels.size());
  for (const auto& [name, number] : labels) names.at(static_cast<std::size_t>(number)) = name;
  return names;
}

std::string regression_line(const TaskFlags& flags, const TextDataset& rows, const std::vector<std::int64_t>& labels) {
  const std::string line = "Task = regression: ";
  if (!flags.problem_type.empty()) return line + "--problem-type";
  const std::vector<std::string> names = texts_of_labels(rows.labels());
  const auto is_fraction = [&](std::int64_t label) { return has_fraction(names.at(static_cast<std::size_t>(label))); };
  const auto first = std::find_if(labels.begin(), labels.end(), is_fraction);
  const auto left_out = std::find_if(names.begin(), names.end(), has_fraction);
  if (first == labels.end() && left_out != names.end()) {
    return fmt::format("{}label {} in {} has a fraction, in a row that --max-train-samples leaves out", line,
                       printable(*left_out), flags.train_file);
  }
  if (first == labels.end()) return line + "so is the model in " + flags.model;
  return fmt::format("{}label {} in {} has a fraction ({} of {} rows)", line,
                     printable(names.at(static_cast<std::size_t>(*first))), rows.where(first - labels.begin()),
                     std::count_if(first, labels.end(), is_fraction), labels.size());
}

LabelProblem label_problem(const TaskFlags& flags, const TextDataset* rows) {
  const std::vector<std::string> labels =
      rows == nullptr ? std::vector<std::string>{} : texts_of_labels(rows->labels());
  const std::optional<ProblemType> of_folder = problem_of_folder(flags.model);
  const bool folder_has_sets = of_folder == ProblemType::MultiLabel;
  const bool folder_has_numbers = of_folder == ProblemType::Regression;
  if (labels.empty()) {
    if (folder_has_sets || flags.label_columns.size() > 1) return LabelProblem::Sets;
    return folder_has_numbers ? LabelProblem::Numbers : LabelProblem::Classes;
  }
  if (are_sets(flags, labels, folder_has_sets)) return LabelProblem::Sets;
  const auto fraction = std::find_if(labels.begin(), labels.end(), has_fraction);
  const bool are_numbers = std::all_of(labels.begin(), labels.end(), is_decimal);
  const bool is_asked = flags.problem_type == kRegression;
  const bool may_be_numbers = flags.problem_type.empty() && are_numbers;
  if (is_asked || (may_be_numbers && (folder_has_numbers || fraction != labels.end()))) return LabelProblem::Numbers;
  if (fraction != labels.end())
    refuse_no_class(*fraction, place_of(*rows, fraction - labels.begin(), flags.train_file));
  return LabelProblem::Classes;
}

std::shared_ptr<const Dataset> with_numbers_as_labels(std::shared_ptr<const Dataset> dataset,
                                                      const std::map<std::string, std::int64_t>& labels,
                                                      const std::string& path) {
  const at::Tensor numbers = at::empty({static_cast<std::int64_t>(labels.size())}, at::kFloat);
  for (const auto& [text, index] : labels) {
    const std::optional<double> number = parse_decimal(text);
    if (!number) {
      throw UsageError(fmt::format("the label \"{}\" is not a number, but the model learns numbers", printable(text)),
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

std::string problem_type_name(LabelProblem problem) {
  switch (problem) {
    case LabelProblem::Numbers:
      return kRegression;
    case LabelProblem::Sets:
      return kMultiLabel;
    default:
      return "single_label_classification";
  }
}

void set_metrics_of_problem(LabelProblem problem, const TaskFlags& flags, std::int64_t classes, TrainingTask& task) {
  switch (problem) {
    case LabelProblem::Numbers:
      return choose_metrics(flags, {"mse", "pearson", "spearmanr"}, "the labels are numbers", regression_metrics(),
                            task);
    case LabelProblem::Sets:
      return choose_metrics(flags, {"f1_micro", "f1_macro", "accuracy"}, "a text has several labels",
                            multi_label_metrics(), task);
    default:
      set_metrics_of_flags(flags, classes, task);
  }
}

}  // namespace lockstep
