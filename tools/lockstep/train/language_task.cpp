// Language modelling: the next token (GPT-2) or masked words (BERT).
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/data/language_modeling_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/flags/model_folder.h"
#include "tools/lockstep/train/text_columns.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

// Blocks of equal length, one behind the other in one tensor.
class TokenBlocks : public Dataset {
 public:
  TokenBlocks(const std::vector<TokenId>& tokens, std::int64_t block_size) : block_size_(block_size) {
    tokens_ = at::empty({static_cast<std::int64_t>(tokens.size())}, torch::kLong);
    std::copy(tokens.begin(), tokens.end(), tokens_.data_ptr<std::int64_t>());
  }
  std::int64_t size() const override { return tokens_.numel() / block_size_; }
  std::vector<std::int64_t> lengths() const {
    return std::vector<std::int64_t>(static_cast<std::size_t>(size()), block_size_);
  }

 private:
  Example do_get(std::int64_t index) const override {
    const at::Tensor ids = tokens_.slice(0, index * block_size_, (index + 1) * block_size_);
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
};

// Packs texts as Hugging Face's run_clm.py and run_mlm.py do: each row is tokenized by itself, with the tokenizer's
// special tokens; the rows of a group are concatenated and cut into blocks, and a last block that is not full is
// dropped.
class Packing {
 public:
  Packing(const Tokenizer& tokenizer, std::int64_t block_size, std::optional<TokenId> end)
      : tokenizer_(tokenizer), block_size_(block_size), end_(end) {}

  /// @param most_blocks  0: all
  void add(const TextDataset& rows, std::int64_t most_blocks) {
    constexpr std::int64_t kRowsOfGroup = 1000;  // of datasets' map(batched=True)
    const auto is_enough = [&] { return most_blocks > 0 && blocks() >= most_blocks; };
    for (std::int64_t first = 0; first < rows.size() && !is_enough(); first += kRowsOfGroup) {
      add_group(rows, first, std::min(first + kRowsOfGroup, rows.size()));
    }
    if (is_enough()) tokens_.resize(static_cast<std::size_t>(most_blocks * block_size_));
  }

  std::int64_t blocks() const { return static_cast<std::int64_t>(tokens_.size()) / block_size_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }

  std::string line(const std::string& path) const {
    return fmt::format(
        "{}: {} rows, {} tokens: {} blocks of {}; {} tokens after the last whole block of each 1000 rows are left out, "
        "as in run_clm.",
        path, rows_, all_tokens_, blocks(), block_size_, dropped_);
  }

 private:
  void add_group(const TextDataset& rows, std::int64_t first, std::int64_t end) {
    std::vector<TextRow> group;
    for (std::int64_t i = first; i < end; ++i) group.push_back(rows.get(i));
    std::vector<std::string_view> texts;
    for (const TextRow& row : group) texts.emplace_back(row.texts.front());
    const std::size_t before = tokens_.size();
    for (const Encoding& encoding : tokenizer_.encode_batch(texts, EncodeOptions{})) {
      tokens_.insert(tokens_.end(), encoding.ids.begin(), encoding.ids.end());
      if (end_) tokens_.push_back(*end_);
    }
    const std::size_t added = tokens_.size() - before;
    const std::size_t left = added % static_cast<std::size_t>(block_size_);
    tokens_.resize(tokens_.size() - left);
    rows_ += end - first;
    all_tokens_ += added;
    dropped_ += left;
  }

  const Tokenizer& tokenizer_;
  std::int64_t block_size_;
  std::optional<TokenId> end_;  // behind each row
  std::vector<TokenId> tokens_;
  std::int64_t rows_ = 0;
  std::size_t all_tokens_ = 0;
  std::size_t dropped_ = 0;
};

std::shared_ptr<const TextDataset> read_rows_to_pack(const TaskFlags& flags, const std::string& path,
                                                     nlohmann::json& data_arguments) {
  TextFileOptions options;
  options.empty_texts = flags.empty_texts == "skip" ? RowPolicy::Skip : RowPolicy::Keep;
  options.invalid_texts = row_policy(flags.invalid_texts);
  options.keep_line_ends = flags.keep_linebreaks.value_or(!flags.mlm);
  set_form(flags.table.form(), path, options);
  options.texts = flags.text_columns.empty() ? std::vector<std::string>{"text"} : flags.text_columns;
  if (options.texts.size() != 1) {
    throw UsageError("language modelling cannot use two text columns", "--text-column", "give one");
  }
  record_columns(options, data_arguments);
  return open_text_file(path, options);
}

std::shared_ptr<const TokenBlocks> read_blocks(const TaskFlags& flags, const std::string& path,
                                               std::int64_t most_blocks, const Tokenizer& tokenizer,
                                               std::int64_t block_size, TrainingTask& task) {
  if (flags.append_eos && !tokenizer.eos_id()) {
    throw UsageError("--append-eos cannot be used: the tokenizer has no end-of-text token", "command line",
                     "leave the flag out");
  }
  Packing packing(tokenizer, block_size, flags.append_eos ? tokenizer.eos_id() : std::nullopt);
  packing.add(*read_rows_to_pack(flags, path, task.data_arguments), most_blocks);
  if (packing.blocks() == 0) {
    throw UsageError("no block is full: " + packing.line(path), path,
                     "give a file with more text, or a smaller --block-size");
  }
  task.notes.push_back(packing.line(path));
  return std::make_shared<TokenBlocks>(packing.tokens(), block_size);
}

}  // namespace

TrainingTask make_language_modeling_task(const TaskFlags& flags, const TrainingArguments& args) {
  const Tokenizer tokenizer = tokenizer_of_flags(flags);
  const TextTask text_task = flags.mlm ? TextTask::MaskedLanguageModel : TextTask::CausalLanguageModel;
  const Loaded<Model> loaded = load_text_model(flags, args, text_task, tokenizer, {});
  const TextLength length = text_length_of_flags(flags, tokenizer, max_positions_of(*loaded.model));
  const std::int64_t block = length.tokens;
  if (block < 2) {
    throw UsageError("--block-size 1 is too small: a block needs a token to predict another from", "command line",
                     "give 2 or more");
  }
  TrainingTask task;
  note_weights(loaded.report, flags, task);
  task.text_length = length.line();
  task.data_arguments["max_length"] = block;
  task.data_arguments["keep_linebreaks"] = flags.keep_linebreaks.value_or(!flags.mlm);
  task.data_arguments["append_eos"] = flags.append_eos;
  const auto model =
      trainable_text_model(loaded.model, tokenizer, block, args.gradient_checkpointing,
                           flags.mlm ? std::map<std::string, std::string>{} : generation_files(flags.model));
  // The loss of a language model is its metric, and its scores are large.
  model->set_predictions([](const at::Tensor&) { return at::Tensor(); });
  task.model = model;
  const auto seed = static_cast<std::uint64_t>(args.seed);
  if (!flags.train_file.empty()) {
    const auto blocks = read_blocks(flags, flags.train_file, flags.max_train_samples, tokenizer, block, task);
    if (args.group_by_length) task.lengths = blocks->lengths();
    task.train = blocks;
  }
  if (!flags.validation_file.empty()) {
    task.eval = read_blocks(flags, flags.validation_file, flags.max_eval_samples, tokenizer, block, task);
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
