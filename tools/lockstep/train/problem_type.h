// Whether a text classifier learns classes, numbers, or several labels a text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/text_dataset.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {

/// What is learned from a column of labels.
enum class LabelProblem { Classes, Numbers, Sets };

/// As Hugging Face's run_glue and run_classification: numbers with a fraction are values to predict, lists and several
/// columns are labels of which a text has any number, other labels are classes. --problem-type decides if it is given;
/// else a folder of a model for regression makes numbers of labels such as 1, 2, 3.
/// @param rows  of the training file; null: an evaluation, which the model's folder decides
/// @throws UsageError  if the labels, the folder and the flags do not fit
LabelProblem label_problem(const TaskFlags& flags, const TextDataset* rows);

/// Why the labels are numbers to predict and not classes: "Task = regression: label 0.5 in rows.csv:8 has a fraction
/// (1 of 16 rows)".
/// @param labels  of the rows
std::string regression_line(const TaskFlags& flags, const TextDataset& rows, const std::vector<std::int64_t>& labels);

/// The texts of labels, by their numbers.
std::vector<std::string> texts_of_labels(const std::map<std::string, std::int64_t>& labels);

/// The samples of `dataset` with the number that each label's text stands for, as float32.
/// @param labels  the label of each text, as TextDataset::labels
/// @throws UsageError  if a text is not a number
std::shared_ptr<const Dataset> with_numbers_as_labels(std::shared_ptr<const Dataset> dataset,
                                                      const std::map<std::string, std::int64_t>& labels,
                                                      const std::string& path);

/// The name of a problem, as config.json has it.
std::string problem_type_name(LabelProblem problem);

/// Sets a problem's metrics on a task: of classes see set_metrics_of_flags; of numbers mse, pearson and spearmanr; of
/// sets f1_micro, f1_macro and accuracy. @throws UsageError  if --metrics asks for others
void set_metrics_of_problem(LabelProblem problem, const TaskFlags& flags, std::int64_t classes, TrainingTask& task);

}  // namespace lockstep
