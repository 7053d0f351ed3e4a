// Classification of images (IDX files) and of tables (CSV).
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/mnist.h"
#include "tools/lockstep/train/built_model.h"
#include "tools/lockstep/train/class_counts.h"
#include "tools/lockstep/train/table_files.h"
#include "tools/lockstep/train/training_task.h"
#include "tools/models/array_model.h"

namespace lockstep {
namespace {

void refuse_text_flags(const TaskFlags& flags, const TrainingArguments& args) {
  if (!flags.tokenizer.empty() || !flags.text_columns.empty() || flags.max_length > 0 || flags.mlm) {
    throw UsageError("--tokenizer, --text-column, --max-length and --mlm are for texts", "--task " + flags.task,
                     "leave them out");
  }
  if (flags.missing_labels != "refuse") {
    throw UsageError("--missing-labels is only for texts", "--task " + flags.task, "leave it out");
  }
  if (args.group_by_length)
    throw UsageError("group_by_length is only for texts: these samples have one length", "--task " + flags.task,
                     "leave it out");
}

TrainingTask array_task(const TaskFlags& flags, const ArrayModel& model, InputKind kind, const char* usual,
                        std::map<std::string, std::string> files) {
  if (model.model->input_kind() != kind) {
    throw UsageError("--model " + flags.model + " is not for this task", "--task " + flags.task,
                     std::string("give ") + usual);
  }
  TrainingTask task;
  files["config.json"] = array_config_json(model);
  const auto adapted = adapt(model.model);
  adapted->set_files(std::move(files));
  task.model = adapted;
  set_metrics_of_flags(flags, static_cast<std::int64_t>(model.labels.size()), task);
  task.data_arguments["classes"] = recorded_classes(model.labels);
  task.data_arguments["classes_digest"] = classes_digest(model.labels);
  task.notice = model.notice;
  return task;
}

}  // namespace

TrainingTask make_image_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  refuse_text_flags(flags, args);
  const std::string of_tables = !flags.label_columns.empty() ? "--label-column" : flags.table.given();
  if (!of_tables.empty()) throw UsageError(of_tables + " is only for tables", "--task " + flags.task, "leave it out");
  // A folder's model keeps its classes, unless its head is made again for the data's classes.
  const bool keeps_classes = std::filesystem::is_directory(flags.model) && !flags.ignore_mismatched_sizes;
  const bool counts = !keeps_classes && !flags.train_file.empty();
  const std::int64_t counted = counts ? count_mnist_classes(flags.train_file, Split::Train) : 0;
  const ArrayModel model = built_for_training(args, [&] {
    return load_or_make_array_model(flags.model, {}, numbers_as_names(counted), flags.ignore_mismatched_sizes);
  });
  TrainingTask task = array_task(flags, model, InputKind::Image, "convnet", {});
  const auto classes = static_cast<std::int64_t>(model.labels.size());
  const auto seed = static_cast<std::uint64_t>(args.seed);
  if (!flags.train_file.empty()) {
    task.train = random_samples(mnist(flags.train_file, Split::Train, classes), flags.max_train_samples, seed);
  }
  if (!flags.validation_file.empty()) {
    task.eval = random_samples(mnist(flags.validation_file, Split::Test, classes), flags.max_eval_samples, seed);
  }
  return task;
}

TrainingTask make_tabular_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  refuse_text_flags(flags, args);
  std::shared_ptr<TensorDataset> train;
  const bool is_folder = std::filesystem::is_directory(flags.model);
  if (!is_folder && flags.train_file.empty()) {
    throw UsageError("there is no folder " + flags.model, "--model", "give the folder of a model of tables");
  }
  std::vector<std::string> warnings;
  const TableForm form = flags.table.form();
  const TableEncoding encoding =
      is_folder ? TableEncoding::of_folder(flags.model)
                : TableEncoding::learn(flags.train_file, flags.label_column(), form, train, warnings);
  if (is_folder && !flags.train_file.empty()) train = encoding.read(flags.train_file, form, flags.label_column());
  ModelOptions options;
  options.features = encoding.features();
  const ArrayModel model = built_for_training(args, [&] {
    return load_or_make_array_model(flags.model, options, encoding.classes(), flags.ignore_mismatched_sizes);
  });
  TrainingTask task = array_task(flags, model, InputKind::Features, "mlp", {{TableEncoding::kFile, encoding.json()}});
  const std::string& label = flags.label_columns.empty() ? encoding.label() : flags.label_columns.front();
  task.data_arguments["label_column"] = std::vector<std::string>{label};
  task.warnings = warnings_of_labels(encoding.classes(), train ? train->size() : 0, flags.train_file);
  task.warnings.insert(task.warnings.end(), warnings.begin(), warnings.end());
  const auto seed = static_cast<std::uint64_t>(args.seed);
  task.train = random_samples(train, flags.max_train_samples, seed);
  if (task.train) {
    const ClassCounts counts = count_classes(encoding.classes(), *task.train);
    const auto of_spellings = warnings_of_spellings(counts, flags.train_file);
    task.facts.push_back(class_counts_line(counts));
    task.warnings.insert(task.warnings.end(), of_spellings.begin(), of_spellings.end());
  }
  if (!flags.validation_file.empty()) {
    task.eval =
        random_samples(encoding.read(flags.validation_file, form, flags.label_column()), flags.max_eval_samples, seed);
  }
  return task;
}

}  // namespace lockstep
