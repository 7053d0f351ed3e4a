// Classification of images (IDX files) and of tables (CSV).
#include "lockstep/base/error.h"
#include "lockstep/data/mnist.h"
#include "tools/lockstep/array_model.h"
#include "tools/lockstep/table_files.h"
#include "tools/lockstep/training_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kImageClasses = 10;

void refuse_text_flags(const TaskFlags& flags, const TrainingArguments& args) {
  if (!flags.tokenizer.empty() || !flags.text_columns.empty() || flags.max_length > 0 || flags.mlm) {
    throw UsageError("--tokenizer, --text-column, --max-length and --mlm are for texts", "--task " + flags.task,
                     "leave them out");
  }
  if (args.group_by_length)
    throw UsageError("group_by_length: samples are all alike", "--task " + flags.task, "leave it out");
}

TrainingTask array_task(const TaskFlags& flags, std::shared_ptr<Model> model, std::int64_t classes) {
  TrainingTask task;
  task.model = std::make_shared<ModelAdapter>(std::move(model), std::nullopt, false);
  task.metrics = metrics_of_flags(flags, classes);
  return task;
}

}  // namespace

TrainingTask make_image_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  refuse_text_flags(flags, args);
  if (!flags.label_column.empty())
    throw UsageError("--label-column is for tables", "--task " + flags.task, "leave it out");
  TrainingTask task = array_task(flags, array_model(flags.model, "convnet", {}), kImageClasses);
  if (task.model->model().input_kind() != InputKind::Image) {
    throw UsageError("--model " + flags.model + " takes no images", "command line", "give convnet");
  }
  if (!flags.train_file.empty()) {
    task.train = first_samples(mnist(flags.train_file, Split::Train), flags.max_train_samples);
  }
  if (!flags.validation_file.empty()) {
    task.eval = first_samples(mnist(flags.validation_file, Split::Test), flags.max_eval_samples);
  }
  return task;
}

TrainingTask make_tabular_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  refuse_text_flags(flags, args);
  if (flags.train_file.empty()) {
    throw UsageError("scaling and categories of a table are learned from the file that a model was trained on",
                     "command line", "give it as --train-file");
  }
  const TrainingTables tables = read_training_tables(flags.train_file, flags.validation_file, flags.label_column);
  ModelOptions options;
  options.features = tables.train->fields().at("features").size(1);
  options.num_labels = tables.classes;
  TrainingTask task = array_task(flags, array_model(flags.model, "mlp", options), tables.classes);
  if (task.model->model().input_kind() != InputKind::Features) {
    throw UsageError("--model " + flags.model + " takes no tables", "command line", "give mlp");
  }
  task.train = first_samples(tables.train, flags.max_train_samples);
  task.eval = first_samples(tables.eval, flags.max_eval_samples);
  return task;
}

}  // namespace lockstep
