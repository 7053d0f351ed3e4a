// Sentence embeddings: one vector for each text, near those of texts that mean the same.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/text_file.h"
#include "lockstep/sentence/sentence_dataset.h"
#include "lockstep/sentence/sentence_encoder.h"
#include "lockstep/sentence/sentence_training.h"
#include "tools/lockstep/train/built_model.h"
#include "tools/lockstep/train/problem_type.h"
#include "tools/lockstep/train/text_columns.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

void refuse_foreign_flags(const TaskFlags& flags, const TrainingArguments& args) {
  const auto refuse = [](const std::string& what) {
    throw UsageError(what + " cannot be combined with --task sentence-embedding", "command line", "leave it out");
  };
  if (args.label_smoothing_factor > 0) refuse("--label-smoothing-factor");
  if (args.prediction_loss_only) refuse("--prediction-loss-only");
  if (!flags.metrics.empty()) refuse("--metrics");
  if (!flags.problem_type.empty()) refuse("--problem-type");
  if (flags.mlm) refuse("--mlm");
}

// The column of --label-column, or else the usual one; empty if the file has neither.
std::string label_column_of(const TaskFlags& flags, const ColumnNames& columns) {
  if (!flags.label_columns.empty()) return flags.label_column();
  for (const char* name : {"score", "similarity_score"}) {
    if (has_column(columns, name)) return name;
  }
  return "";
}

// A row's texts and, if the file has a column for it, how alike they are.
std::shared_ptr<const TextDataset> read_sentences(const TaskFlags& flags, const std::string& path, std::int64_t samples,
                                                  std::uint64_t seed, nlohmann::json& data_arguments) {
  TextFileOptions options;
  const TableForm form = flags.table.form();
  set_form(form, path, options);
  options.texts = text_columns_of_file(path, flags.text_columns, form, usual_sentence_columns());
  options.label = label_column_of(flags, columns_of_texts(path, form));
  options.fractions = true;
  options.missing_labels = row_policy(flags.missing_labels);
  options.empty_texts = row_policy(flags.empty_texts);
  options.invalid_texts = row_policy(flags.invalid_texts);
  if (options.texts.size() < 2) {
    throw UsageError(
        "there is only one text column, \"" + options.texts.front() + "\", but texts are compared with each other",
        path, "name two or more: --text-column anchor,positive");
  }
  if (!options.label.empty() && options.texts.size() > 2) {
    throw UsageError(fmt::format("there are {} text columns for the label \"{}\", which is for two texts",
                                 options.texts.size(), options.label),
                     path, "name two text columns");
  }
  record_columns(options, data_arguments);
  auto rows = open_text_file(path, options);
  for (const auto& [text, index] : rows->labels()) {
    const std::optional<double> number = parse_decimal(text);
    if (number && *number >= -1 && *number <= 1) continue;
    throw UsageError(fmt::format("the label \"{}\" is not a number from -1 to 1", printable(text)), path,
                     "divide the column by its largest value, so that it can be compared with a cosine");
  }
  return samples > 0 && samples < rows->size() ? sample_rows(rows, samples, seed) : rows;
}

// With the labels as numbers, if the rows have them.
std::shared_ptr<const Dataset> with_similarities(std::shared_ptr<const Dataset> samples, const TextDataset& rows,
                                                 const std::string& path) {
  return rows.has_labels() ? with_numbers_as_labels(std::move(samples), rows.labels(), path) : samples;
}

// Where each batch is one pair, its loss is zero whatever the model does.
void require_negatives(const TrainingArguments& args, const Dataset& train, std::size_t texts) {
  const std::int64_t pairs =
      std::min(args.per_device_train_batch_size * env_int("WORLD_SIZE").value_or(1), train.size());
  if (pairs > 1 || texts > 2) return;
  throw UsageError("a batch of one pair has no negatives, so there is nothing to learn", "training",
                   "use --per-device-train-batch-size 2 or more, or more ranks, or name a column of negatives");
}

}  // namespace

TrainingTask make_sentence_embedding_task(const TaskFlags& flags, const TrainingArguments& args) {
  refuse_foreign_flags(flags, args);
  const auto seed = static_cast<std::uint64_t>(args.seed);
  Tokenizer tokenizer = tokenizer_of_flags(flags);
  LoadOptions loading;
  loading.tokenizer_size = tokenizer.vocab_size();
  loading.ignore_mismatched_sizes = flags.ignore_mismatched_sizes;
  loading.gradient_checkpointing = args.gradient_checkpointing;
  const auto loaded = built_for_training(
      args, [&] { return SentenceEncoderImpl::load_or_make(flags.model, loading, tokenizer.pad_id()); });
  SentenceLayout layout = loaded.model->layout();
  const std::int64_t positions = loaded.model->max_positions();
  const TextLength length = text_length_of_sentences(flags.max_length, layout.max_seq_length, positions)
                                .value_or(text_length_of_flags(flags, tokenizer, positions));
  layout.max_seq_length = length.tokens;
  loaded.model->set_layout(layout);
  TokenizeOptions tokenizing;
  tokenizing.truncation = true;
  tokenizing.max_length = length.tokens;

  TrainingTask task;
  note_weights(loaded.report, flags, task);
  task.text_length = length.line();
  task.data_arguments["max_length"] = length.tokens;
  std::optional<bool> are_scored;
  std::size_t texts = 0;
  const auto read = [&](const std::string& path, std::int64_t samples, const char* name_of_values) {
    const auto rows = read_sentences(flags, path, samples, seed, task.data_arguments);
    if (are_scored && *are_scored != rows->has_labels()) {
      throw UsageError("one of the two files has similarities of texts, but the other does not", path,
                       "name the column in both: --label-column; or leave it out of both");
    }
    are_scored = rows->has_labels();
    if (texts != 0 && texts != rows->fields().size()) {
      throw UsageError(fmt::format("there are {} text columns, but {} in the other file", rows->fields().size(), texts),
                       path, "name the same ones for both: --text-column anchor,positive");
    }
    texts = rows->fields().size();
    auto samples_of = std::make_shared<SentenceDataset>(*rows, tokenizer, tokenizing);
    if (path == flags.train_file && args.group_by_length) task.lengths = samples_of->lengths();
    if (rows->has_labels()) task.data_arguments[name_of_values] = recorded_values(rows->labels());
    return with_similarities(std::move(samples_of), *rows, path);
  };
  if (!flags.train_file.empty()) task.train = read(flags.train_file, flags.max_train_samples, "label_values");
  if (!flags.validation_file.empty())
    task.eval = read(flags.validation_file, flags.max_eval_samples, "eval_label_values");

  SentenceLossOptions learning;
  if (are_scored.value_or(false)) learning.loss = SentenceLoss::CosineSimilarity;
  if (task.train && learning.loss == SentenceLoss::Contrastive) require_negatives(args, *task.train, texts);
  const auto model = adapt_sentence_encoder(loaded.model, learning);
  tokenizer.set_model_max_length(length.tokens);
  std::map<std::string, std::string> files = tokenizer.files();
  files.merge(loaded.model->files());
  model->set_files(std::move(files));
  model->set_recomputes_activations(args.gradient_checkpointing);
  task.model = model;
  task.collate = SentenceCollator(tokenizer);
  if (learning.loss == SentenceLoss::Contrastive) {
    task.metrics = retrieval_metrics(learning.scale);
    task.metric_names = {"cosine_accuracy@1", "cosine_accuracy@10", "cosine_mrr@10"};
  } else {
    task.metrics = similarity_metrics();
    task.metric_names = {"pearson_cosine", "spearman_cosine"};
  }
  return task;
}

}  // namespace lockstep
