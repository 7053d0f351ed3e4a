// Classification of images (IDX files) and of tables (CSV).
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/csv_reader.h"
#include "lockstep/data/csv_tokenizer.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/mnist.h"
#include "lockstep/data/nsl_kdd.h"
#include "lockstep/models/pretrained.h"
#include "lockstep/models/registry.h"
#include "lockstep/safetensors/safetensors.h"
#include "tools/lockstep/training_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kImageClasses = 10;
constexpr std::int64_t kRowsLookedAt = 10000;

// A model by name, or the same with the weights of a folder that a training wrote.
std::shared_ptr<Model> array_model(const TaskFlags& flags, const std::string& usual, const ModelOptions& options) {
  if (!std::filesystem::is_directory(flags.model)) return make_model(flags.model, options);
  auto model = make_model(usual, options);
  const SafetensorsFile file(flags.model + "/model.safetensors");
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state_of(*model)) {
    const at::Tensor saved = file.tensor(name);
    if (saved.sizes() != tensor.sizes()) {
      throw Error("the weight " + name + " has another shape than " + usual + "'s for this data", file.path(),
                  "give the folder of a model that was trained on data of this form");
    }
    at::Tensor(tensor).copy_(saved);
  }
  return model;
}

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

bool is_number(const std::string& text) {
  if (text.empty()) return false;
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return *end == '\0';
}

// A table with a header: columns of numbers are scaled, others are one-hot; the label is named, or "label".
CsvSchema schema_of_table(const TaskFlags& flags) {
  const std::vector<std::string> names = columns_of_file(flags.train_file);
  const std::string label = flags.label_column.empty() ? "label" : flags.label_column;
  if (std::find(names.begin(), names.end(), label) == names.end()) {
    throw UsageError("there is no column \"" + label + "\"", flags.train_file, "give --label-column");
  }
  const FileBytes file = FileBytes::open(flags.train_file);
  CsvSchema schema;
  if (flags.train_file.find(".tsv") != std::string::npos) schema.dialect.delimiter = '\t';
  CsvTokenizer records(file.view(), flags.train_file, schema.dialect);
  std::vector<CsvField> fields;
  std::string storage;
  std::vector<bool> numeric(names.size(), true);
  records.next(fields);
  for (std::int64_t row = 0; row < kRowsLookedAt && records.next(fields); ++row) {
    for (std::size_t i = 0; i < std::min(fields.size(), names.size()); ++i) {
      numeric[i] = numeric[i] && is_number(std::string(fields[i].value(storage)));
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    CsvColumn column = names[i] == label ? label_column(label)
                       : numeric[i]      ? number_column(names[i], CsvColumn::Scaling::Standard)
                                         : category_column(names[i]);
    if (column.kind == CsvColumn::Kind::Category) column.unknown_allowed = true;
    schema.columns.push_back(std::move(column));
  }
  return schema;
}

// NSL-KDD has no header: 41 features, the attack, and perhaps a difficulty.
bool is_nsl_kdd(const std::string& path) {
  const std::vector<std::string> first = columns_of_file(path);
  return (first.size() == 42 || first.size() == 43) && is_number(first.front());
}

struct Tables {
  std::shared_ptr<TensorDataset> train;
  std::shared_ptr<TensorDataset> eval;
  std::int64_t classes = 0;
};

std::int64_t classes_of(const CsvEncoding& encoding) {
  std::int64_t classes = 0;
  for (const auto& [name, number] : encoding.classes()) classes = std::max(classes, number + 1);
  return classes;
}

Tables read_tables(const TaskFlags& flags) {
  Tables tables;
  if (is_nsl_kdd(flags.train_file)) {
    const CsvData data = read_nsl_kdd(flags.train_file);
    tables.train = data.dataset;
    tables.classes = 2;
    if (!flags.validation_file.empty()) tables.eval = read_nsl_kdd(flags.validation_file, data.encoding);
    return tables;
  }
  const CsvSchema schema = schema_of_table(flags);
  const CsvData data = read_csv(flags.train_file, schema);
  tables.train = data.dataset;
  tables.classes = classes_of(data.encoding);
  if (!flags.validation_file.empty()) tables.eval = read_csv(flags.validation_file, schema, data.encoding);
  return tables;
}

}  // namespace

TrainingTask make_image_classification_task(const TaskFlags& flags, const TrainingArguments& args) {
  refuse_text_flags(flags, args);
  if (!flags.label_column.empty())
    throw UsageError("--label-column is for tables", "--task " + flags.task, "leave it out");
  TrainingTask task = array_task(flags, array_model(flags, "convnet", {}), kImageClasses);
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
  const Tables tables = read_tables(flags);
  ModelOptions options;
  options.features = tables.train->fields().at("features").size(1);
  options.num_labels = tables.classes;
  TrainingTask task = array_task(flags, array_model(flags, "mlp", options), tables.classes);
  if (task.model->model().input_kind() != InputKind::Features) {
    throw UsageError("--model " + flags.model + " takes no tables", "command line", "give mlp");
  }
  task.train = first_samples(tables.train, flags.max_train_samples);
  task.eval = first_samples(tables.eval, flags.max_eval_samples);
  return task;
}

}  // namespace lockstep
