// Language modelling: the next token (GPT-2) or masked words (BERT).
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/data/language_modeling_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

// Concatenated texts, cut into blocks of equal length; the last block is the remainder.
class TokenBlocks : public Dataset {
 public:
  TokenBlocks(std::vector<TokenId> tokens, std::int64_t block_size) : block_size_(block_size) {
    tokens_ = at::empty({static_cast<std::int64_t>(tokens.size())}, torch::kLong);
    std::copy(tokens.begin(), tokens.end(), tokens_.data_ptr<std::int64_t>());
    // A single token predicts nothing.
    const std::int64_t count = tokens_.numel();
    size_ = count / block_size + (count % block_size > 1 ? 1 : 0);
  }
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(size_), block_size_);
    if (size_ > 0) lengths.back() = std::min(block_size_, tokens_.numel() - (size_ - 1) * block_size_);
    return lengths;
  }

 private:
  Example do_get(std::int64_t index) const override {
    const at::Tensor ids = tokens_.slice(0, index * block_size_, std::min((index + 1) * block_size_, tokens_.numel()));
    return {{"input_ids", ids}, {"attention_mask", at::ones_like(ids)}};
  }
  bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t begin = indices[i] * block_size_;
      const std::int64_t count = std::min(block_size_, tokens_.numel() - begin);
      digests[i] = hash_bytes(tokens_.data_ptr<std::int64_t>() + begin, 8 * static_cast<std::size_t>(count));
    }
    return true;
  }

  std::int64_t block_size_;
  at::Tensor tokens_;
  std::int64_t size_ = 0;
};

std::shared_ptr<const TokenBlocks> read_blocks(const TaskFlags& flags, const std::string& path, std::int64_t samples,
                                               const Tokenizer& tokenizer, std::int64_t block_size,
                                               std::uint64_t seed) {
  TextFileOptions options;
  options.empty_texts = RowPolicy::Skip;
  options.invalid_texts = row_policy(flags.invalid_texts);
  options.dialect = dialect_of(flags);
  options.texts = flags.text_columns.empty() ? std::vector<std::string>{"text"} : flags.text_columns;
  if (options.texts.size() != 1) {
    throw UsageError("two text columns for language modelling", "--text-column", "give one");
  }
  std::shared_ptr<const TextDataset> rows = open_text_file(path, options);
  if (samples > 0 && samples < rows->size()) rows = sample_rows(rows, samples, seed);
  const std::optional<TokenId> end = tokenizer.eos_id() ? tokenizer.eos_id() : tokenizer.sep_id();
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < rows->size(); ++i) {
    tokenizer.append_ids(rows->get(i).texts.front(), tokens);
    if (end) tokens.push_back(*end);
  }
  auto blocks = std::make_shared<TokenBlocks>(std::move(tokens), block_size);
  if (blocks->size() == 0) throw UsageError("the file makes no two tokens", path, "give a file with more text");
  return blocks;
}

}  // namespace

TrainingTask make_language_modeling_task(const TaskFlags& flags, const TrainingArguments& args) {
  const Tokenizer tokenizer = tokenizer_of_flags(flags);
  const TextTask text_task = flags.mlm ? TextTask::MaskedLanguageModel : TextTask::CausalLanguageModel;
  const Loaded<Model> loaded = load_text_model(flags, args, text_task, tokenizer, {});
  const TextLength length = text_length_of_flags(flags, tokenizer, max_positions_of(*loaded.model));
  const std::int64_t block = length.tokens;
  if (block < 2) {
    throw UsageError("--block-size 1: a token alone says nothing about another", "command line", "take 2 or more");
  }
  TrainingTask task;
  task.notice = loaded.report.text();
  task.text_length = length.line();
  const auto model = trainable_text_model(loaded.model, tokenizer, block, args.gradient_checkpointing);
  // The loss of a language model is its metric, and its scores are large.
  model->set_predictions([](const at::Tensor&) { return at::Tensor(); });
  task.model = model;
  const auto seed = static_cast<std::uint64_t>(args.seed);
  if (!flags.train_file.empty()) {
    const auto blocks = read_blocks(flags, flags.train_file, flags.max_train_samples, tokenizer, block, seed);
    if (args.group_by_length) task.lengths = blocks->lengths();
    task.train = blocks;
  }
  if (!flags.validation_file.empty()) {
    task.eval = read_blocks(flags, flags.validation_file, flags.max_eval_samples, tokenizer, block, seed);
  }
  LanguageModelingOptions collating;
  collating.mlm = flags.mlm;
  collating.seed = seed;
  const DataCollatorForLanguageModeling collator(tokenizer, collating);
  task.collate = collator;
  task.set_epoch = [collator](std::int64_t epoch) { collator.set_epoch(epoch); };
  task.metrics = language_modeling_metrics();
  task.metric_names = {"perplexity"};
  return task;
}

}  // namespace lockstep
