// `lockstep predict` for texts: labels, continuations, masked words.
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/models/key_value_cache.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/predict/answers.h"
#include "tools/lockstep/predict/generation_settings.h"
#include "tools/lockstep/predict/label_scores.h"
#include "tools/lockstep/predict/prediction.h"
#include "tools/lockstep/train/text_length.h"
#include "tools/lockstep/train/training_task.h"
#include "tools/lockstep/train/whole_model.h"

namespace lockstep {
namespace {

using OrderedJson = Answers::OrderedJson;

constexpr std::int64_t kMaskedWords = 5;

struct TextPredictor {
  std::shared_ptr<Model> model;
  Tokenizer tokenizer;
  std::int64_t longest;
};

TextPredictor load_predictor(const PredictFlags& flags, TextTask task, std::ostream& notes) {
  Tokenizer tokenizer = tokenizer_of_folders(flags.tokenizer, flags.model);
  LoadOptions options;
  options.tokenizer_size = tokenizer.vocab_size();
  const auto loaded = load_pretrained_model(flags.model, task, options);
  require_whole_model(loaded.report, flags.model);
  loaded.model->eval();
  const TextLength length = text_length_of_saved(flags.max_length, tokenizer, max_positions_of(*loaded.model));
  fmt::print(notes, "{}\n", length.line());  // standard output holds the answers alone
  return {loaded.model, tokenizer, length.tokens};
}

template <typename Number>
at::Tensor tensor_of(const std::vector<Number>& numbers) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<std::int64_t>());
  return tensor;
}

Example example_of(const PredictedText& text, const TextPredictor& predictor) {
  EncodeOptions options;
  options.truncation.emplace();
  options.truncation->max_length = predictor.longest;
  const Encoding encoding = text.second ? predictor.tokenizer.encode_pair(text.text, *text.second, options)
                                        : predictor.tokenizer.encode(text.text, options);
  Example example{{"input_ids", tensor_of(encoding.ids)}};
  if (text.second) example["token_type_ids"] = tensor_of(encoding.token_type_ids);
  return example;
}

at::Tensor scores_of(const std::vector<PredictedText>& texts, const TextPredictor& predictor) {
  std::vector<Example> examples;
  for (const PredictedText& text : texts) examples.push_back(example_of(text, predictor));
  const at::Tensor outputs = predictor.model->forward(DataCollatorWithPadding(predictor.tokenizer)(examples));
  return label_scores_of(*predictor.model, outputs);
}

void answer_label(const std::string& text, const at::Tensor& scores, const std::vector<std::string>& labels,
                  Answers& answers) {
  const auto best = scores.argmax().item<std::int64_t>();
  const std::string& label = labels.at(static_cast<std::size_t>(best));
  const auto score = scores[best].item<double>();
  OrderedJson out{{"label", label}, {"score", score}, {"text", text}};
  out["scores"] = label_scores(labels, scores);
  answers.add(out, fmt::format("{}\t{:.4f}\t{}", printable(label), score, printable(text, text.size())));
}

// The next token, from the scores of the last one.
TokenId next_token(const at::Tensor& scores, const GenerationSettings& settings) {
  if (settings.temperature == 0) return static_cast<TokenId>(scores.argmax().item<std::int64_t>());
  const std::int64_t kept = settings.top_k == 0 ? scores.numel() : std::min(settings.top_k, scores.numel());
  const auto [values, ids] = scores.topk(kept);
  // Relative to the best score, and in double: a tiny temperature then leaves the best token, and no infinity.
  const at::Tensor behind_best = values.to(at::kDouble) - values[0].to(at::kDouble);
  const at::Tensor drawn = at::multinomial(at::softmax(behind_best / settings.temperature, -1), 1);
  return static_cast<TokenId>(ids[drawn.item<std::int64_t>()].item<std::int64_t>());
}

// With more tokens the model could not see any of the given text.
void require_new_tokens_fit(const GenerationSettings& settings, const TextPredictor& predictor) {
  const std::int64_t positions = max_positions_of(*predictor.model);
  if (settings.max_new_tokens < positions) return;
  throw UsageError(
      fmt::format("--max-new-tokens {} is too large: the model has {} positions", settings.max_new_tokens, positions),
      "command line", fmt::format("give at most {}: the text itself needs a position, too", positions - 1));
}

// The scores of the token behind a text that grows. A decoder with a cache reads each token once, until the text is
// longer than the model's window; from then on, and in other decoders, the window is read for each token.
class NextScores {
 public:
  explicit NextScores(const TextPredictor& predictor)
      : predictor_(predictor), decoder_(dynamic_cast<CachedDecoder*>(predictor.model.get())) {}

  at::Tensor behind(const std::vector<TokenId>& ids) {
    const auto longest = static_cast<std::size_t>(predictor_.longest);
    if (decoder_ != nullptr && ids.size() <= longest) {
      const std::vector<TokenId> news(ids.begin() + static_cast<std::ptrdiff_t>(cache_.length()), ids.end());
      return decoder_->next_scores(tensor_of(news).unsqueeze(0), cache_)[0];
    }
    const std::size_t seen = std::min(ids.size(), longest);
    const std::vector<TokenId> window(ids.end() - static_cast<std::ptrdiff_t>(seen), ids.end());
    return predictor_.model->forward({{"input_ids", tensor_of(window).unsqueeze(0)}})[0][-1];
  }

 private:
  const TextPredictor& predictor_;
  CachedDecoder* decoder_;
  KeyValueCache cache_;
};

void continue_text(const std::string& text, const TextPredictor& predictor, const GenerationSettings& settings,
                   Answers& answers) {
  const std::optional<TokenId> begin = predictor.tokenizer.eos_id();
  // With what the tokenizer puts before a text, as in training: <|begin_of_text|> of Llama 3.
  std::vector<TokenId> ids = predictor.tokenizer.encode(text).ids;
  if (ids.empty() && begin) ids.push_back(*begin);  // the token with which a text of the training begins
  if (ids.empty()) return;
  std::vector<TokenId> added;
  NextScores next(predictor);
  while (static_cast<std::int64_t>(added.size()) < settings.max_new_tokens) {
    const TokenId token = next_token(next.behind(ids), settings);
    if (settings.ends.count(token) != 0) break;
    ids.push_back(token);
    added.push_back(token);
  }
  const std::string more = predictor.tokenizer.decode(added);
  answers.add({{"text", text}, {"generated_text", text + more}, {"new_tokens", added.size()}}, text + more);
}

void fill_masks(const PredictedText& predicted, const TextPredictor& predictor, const PredictFlags& flags,
                Answers& answers) {
  const std::string text = predicted.shown();
  const std::optional<TokenId> mask = predictor.tokenizer.mask_id();
  if (!mask) throw Error("the tokenizer has no token for a masked word", flags.model, "give the folder of a BERT");
  const at::Tensor ids = example_of(predicted, predictor).at("input_ids");
  const at::Tensor places = ids.eq(static_cast<std::int64_t>(*mask)).nonzero().view(-1);
  if (places.numel() == 0) {
    throw Error("there is no masked word in \"" + text + "\"", flags.file.empty() ? "standard input" : flags.file,
                "write " + *predictor.tokenizer.special_tokens().mask + " for a word that the model is to find");
  }
  const at::Tensor scores = at::softmax(predictor.model->forward({{"input_ids", ids.unsqueeze(0)}})[0], -1);
  OrderedJson out{{"text", text}, {"masks", OrderedJson::array()}};
  std::vector<std::string> lines;
  for (std::int64_t i = 0; i < places.numel(); ++i) {
    const auto [values, words] = scores[places[i].item<std::int64_t>()].topk(kMaskedWords);
    OrderedJson found = OrderedJson::array();
    for (std::int64_t k = 0; k < kMaskedWords; ++k) {
      const std::string word = predictor.tokenizer.decode({static_cast<TokenId>(words[k].item<std::int64_t>())});
      found.push_back({{"token", word}, {"score", values[k].item<double>()}});
      lines.push_back(
          fmt::format("{}\t{:.4f}\t{}", printable(word), values[k].item<double>(), printable(text, text.size())));
    }
    out["masks"].push_back(found);
  }
  answers.add(out, fmt::format("{}", fmt::join(lines, "\n")));
}

// Texts and pairs mean different things to a classifier: a tab that stands in some lines only is part of a text, or is
// missing from a pair.
void require_like_first(const PredictedText& first, const PredictedText& text) {
  if (first.second.has_value() == text.second.has_value()) return;
  const PredictedText& pair = first.second ? first : text;
  const PredictedText& single = first.second ? text : first;
  throw Error(
      "there is a tab in " + pair.where + " and none in " + single.where + ": a tab separates the texts of a pair",
      text.where,
      "replace tabs within a text by spaces, or write the texts as JSON Lines (--file TEXTS.jsonl); "
      "pairs need a tab in every line");
}

}  // namespace

void predict_labels_of_texts(const PredictFlags& flags, const CommandStreams& streams) {
  const TextPredictor predictor = load_predictor(flags, TextTask::SequenceClassification, streams.err);
  const std::vector<std::string> labels = labels_of(*predictor.model);
  Answers answers(flags, streams.out);
  std::optional<PredictedText> first;
  read_texts(flags, streams, BlankTexts::Skip, [&](const std::vector<PredictedText>& texts) {
    if (!first) first = texts.front();
    for (const PredictedText& text : texts) require_like_first(*first, text);
    const at::Tensor scores = scores_of(texts, predictor);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      answer_label(texts[i].shown(), scores[static_cast<std::int64_t>(i)], labels, answers);
    }
    answers.flush();
  });
  answers.finish();
}

void predict_language(const PredictFlags& flags, const CommandStreams& streams) {
  const bool fills = !predicts_next_token(flags.model);
  const TextTask task = fills ? TextTask::MaskedLanguageModel : TextTask::CausalLanguageModel;
  const TextPredictor predictor = load_predictor(flags, task, streams.err);
  const GenerationSettings settings = fills ? GenerationSettings{} : generation_settings(flags, predictor.tokenizer);
  if (!fills) require_new_tokens_fit(settings, predictor);
  if (!settings.not_applied.empty()) log_warning("{}", settings.not_applied);
  torch::manual_seed(flags.seed);
  Answers answers(flags, streams.out);
  // A decoder can also start without text, as a text of its training begins, if the tokenizer has a token for that.
  const bool begins_anew = !fills && predictor.tokenizer.eos_id();
  const BlankTexts blank_texts = begins_anew ? BlankTexts::Keep : BlankTexts::Skip;
  read_texts(flags, streams, blank_texts, [&](const std::vector<PredictedText>& texts) {
    for (const PredictedText& text : texts) {
      fills ? fill_masks(text, predictor, flags, answers) : continue_text(text.shown(), predictor, settings, answers);
    }
    answers.flush();
  });
  answers.finish();
}

}  // namespace lockstep
