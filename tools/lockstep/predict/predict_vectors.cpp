// `lockstep predict` for sentence embeddings: the vector of each text.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/sentence/sentence_encoder.h"
#include "tools/lockstep/predict/answers.h"
#include "tools/lockstep/predict/prediction.h"
#include "tools/lockstep/train/text_length.h"
#include "tools/lockstep/train/training_task.h"
#include "tools/lockstep/train/whole_model.h"

namespace lockstep {
namespace {

constexpr std::size_t kShownNumbers = 4;  // of each vector, for people

std::shared_ptr<SentenceEncoderImpl> load_encoder(const PredictFlags& flags, const Tokenizer& tokenizer) {
  LoadOptions options;
  options.tokenizer_size = tokenizer.vocab_size();
  const auto loaded = SentenceEncoderImpl::from_pretrained(flags.model, options);
  require_whole_model(loaded.report, flags.model);
  loaded.model->eval();
  return loaded.model;
}

at::Tensor vectors_of(const std::vector<PredictedText>& texts, SentenceEncoderImpl& encoder, const Tokenizer& tokenizer,
                      std::int64_t longest) {
  EncodeOptions options;
  options.truncation.emplace();
  options.truncation->max_length = longest;
  std::vector<Example> examples;
  for (const PredictedText& text : texts) {
    if (text.second) {
      throw Error("the line is a pair of texts, but each vector is computed from one text", text.where,
                  "name one column with --text-column; replace tabs within a text by spaces");
    }
    const Encoding encoding = tokenizer.encode(text.text, options);
    at::Tensor ids = at::empty({static_cast<std::int64_t>(encoding.ids.size())}, at::kLong);
    std::copy(encoding.ids.begin(), encoding.ids.end(), ids.data_ptr<std::int64_t>());
    examples.push_back({{"input_ids", ids}});
  }
  const Batch batch = DataCollatorWithPadding(tokenizer)(std::move(examples));
  return encoder.forward(TokenInputs{batch.at("input_ids"), batch.at("attention_mask")}).contiguous();
}

void answer_vector(const std::string& text, const at::Tensor& vector, Answers& answers) {
  const float* begin = vector.data_ptr<float>();
  const std::vector<float> numbers(begin, begin + vector.numel());
  std::string line;
  for (std::size_t i = 0; i < std::min(numbers.size(), kShownNumbers); ++i) line += fmt::format("{:+.4f} ", numbers[i]);
  answers.add({{"text", text}, {"embedding", numbers}},
              fmt::format("{}... ({} numbers)\t{}", line, numbers.size(), printable(text, text.size())));
}

}  // namespace

void predict_vectors_of_texts(const PredictFlags& flags, const CommandStreams& streams) {
  const Tokenizer tokenizer = tokenizer_of_folders(flags.tokenizer, flags.model);
  const auto encoder = load_encoder(flags, tokenizer);
  const std::int64_t positions = encoder->max_positions();
  const TextLength length = text_length_of_sentences(flags.max_length, encoder->layout().max_seq_length, positions)
                                .value_or(text_length_of_saved(flags.max_length, tokenizer, positions));
  fmt::print(streams.err, "{}\n", length.line());  // standard output holds the answers alone
  Answers answers(flags, streams.out);
  read_texts(flags, streams, BlankTexts::Skip, [&](const std::vector<PredictedText>& texts) {
    const at::Tensor vectors = vectors_of(texts, *encoder, tokenizer, length.tokens);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      answer_vector(texts[i].text, vectors[static_cast<std::int64_t>(i)], answers);
    }
    answers.flush();
  });
  answers.finish();
}

}  // namespace lockstep
