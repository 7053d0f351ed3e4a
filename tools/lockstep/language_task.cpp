// Language modelling: the next token (GPT-2) or masked words (BERT).
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/language_modeling_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/training_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlockByDefault = 512;

// Texts one behind the other, cut into blocks of equal length; the last one is what is left.
class TokenBlocks : public Dataset {
 public:
  TokenBlocks(std::vector<TokenId> tokens, std::int64_t block_size) : block_size_(block_size) {
    tokens_ = at::empty({static_cast<std::int64_t>(tokens.size())}, torch::kLong);
    std::copy(tokens.begin(), tokens.end(), tokens_.data_ptr<std::int64_t>());
    // One token alone predicts nothing.
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

  std::int64_t block_size_;
  at::Tensor tokens_;
  std::int64_t size_ = 0;
};

std::shared_ptr<const TokenBlocks> read_blocks(const TaskFlags& flags, const std::string& path, std::int64_t samples,
                                               const Tokenizer& tokenizer, std::int64_t block_size,
                                               std::uint64_t seed) {
  TextFileOptions options;
  options.empty_texts = RowPolicy::Skip;
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

struct LanguageModel {
  std::shared_ptr<Model> model;
  std::int64_t positions;
  std::string notice;
};

std::int64_t positions_of(const Model& model) {
  if (const auto* bert = dynamic_cast<const BertForMaskedLMImpl*>(&model)) {
    return bert->config().max_position_embeddings;
  }
  return dynamic_cast<const GPT2LMHeadModelImpl&>(model).config().n_positions;
}

LanguageModel make_language_model(const TaskFlags& flags, const TrainingArguments& args, const Tokenizer& tokenizer) {
  if (std::filesystem::is_directory(flags.model)) {
    LoadOptions options;
    options.ignore_mismatched_sizes = flags.ignore_mismatched_sizes;
    options.gradient_checkpointing = args.gradient_checkpointing;
    const auto task = flags.mlm ? TextTask::MaskedLanguageModel : TextTask::CausalLanguageModel;
    auto loaded = load_pretrained_model(flags.model, task, options);
    return {loaded.model, positions_of(*loaded.model), loaded.report.text()};
  }
  if (flags.mlm && flags.model.rfind("bert-", 0) == 0) {
    BertConfig config = bert_config_of_size(flags.model.substr(5));
    config.vocab_size = tokenizer.vocab_size();
    config.pad_token_id = tokenizer.pad_id();
    config.gradient_checkpointing = args.gradient_checkpointing;
    return {std::make_shared<BertForMaskedLMImpl>(config), config.max_position_embeddings, ""};
  }
  if (!flags.mlm && flags.model == "gpt2") {
    ModelOptions options;
    options.vocab_size = tokenizer.vocab_size();
    options.pad_token_id = tokenizer.pad_id();
    options.gradient_checkpointing = args.gradient_checkpointing;
    auto model = make_model("gpt2", options);
    const std::int64_t positions = positions_of(*model);
    return {std::move(model), positions, ""};
  }
  throw UsageError(fmt::format("--model {} {} --mlm", flags.model, flags.mlm ? "with" : "without"), "command line",
                   "bert-* predict masked words (--mlm), gpt2 the next token (no --mlm); or give a folder");
}

}  // namespace

TrainingTask make_language_modeling_task(const TaskFlags& flags, const TrainingArguments& args) {
  Tokenizer tokenizer = tokenizer_of_flags(flags);
  if (!tokenizer.pad_id() && tokenizer.special_tokens().eos) tokenizer.set_pad_token(*tokenizer.special_tokens().eos);
  const LanguageModel made = make_language_model(flags, args, tokenizer);
  const std::int64_t longest = std::min(made.positions, kBlockByDefault);
  const std::int64_t block = flags.max_length > 0 ? flags.max_length : longest;
  if (block > made.positions) {
    throw UsageError(fmt::format("--block-size {}, and the model has {} positions", block, made.positions),
                     "command line", "take no more than the model has");
  }
  TrainingTask task;
  task.notice = made.notice;
  task.model = std::make_shared<ModelAdapter>(made.model, tokenizer, args.gradient_checkpointing);
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
  return task;
}

}  // namespace lockstep
