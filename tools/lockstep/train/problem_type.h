// Whether a text classifier learns classes or numbers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {

/// What is learned from a column of labels.
enum class LabelProblem { Classes, Numbers };

/// As Hugging Face's run_glue: numbers with a fraction are values to predict, other labels are classes. --problem-type
/// decides if it is given; else a folder of a model for regression makes numbers of labels such as 1, 2, 3.
/// @param labels  the texts of the training file's labels; empty: an evaluation, which the model's folder decides
/// @throws UsageError  if the labels, the folder and the flag do not fit; for a model of several labels a row
LabelProblem label_problem(const TaskFlags& flags, const std::vector<std::string>& labels);

/// The samples of `dataset` with the number that each label's text stands for, as float32.
/// @param labels  the label of each text, as TextDataset::labels
/// @throws UsageError  if a text is not a number
std::shared_ptr<const Dataset> with_numbers_as_labels(std::shared_ptr<const Dataset> dataset,
                                                      const std::map<std::string, std::int64_t>& labels,
                                                      const std::string& path);

/// Sets mse, pearson and spearmanr on a task. @throws UsageError  if --metrics asks for others
void set_metrics_of_numbers(const TaskFlags& flags, TrainingTask& task);

}  // namespace lockstep
