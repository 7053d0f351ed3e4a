#include "tools/lockstep/train/text_length.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLongestByDefault = 512;

// Nothing if --max-length is not given.
std::optional<TextLength> asked_length(std::int64_t asked, std::int64_t positions) {
  if (asked > positions) {
    throw UsageError(fmt::format("--max-length {} is too large: the model has {} positions", asked, positions),
                     "command line", "give at most the model's number of positions");
  }
  if (asked == 0) return std::nullopt;
  return TextLength{asked, "--max-length"};
}

// Nothing if the tokenizer declares no length, or more than the model has.
std::optional<TextLength> declared_length(const Tokenizer& tokenizer, std::int64_t positions) {
  const std::optional<std::int64_t> declared = tokenizer.model_max_length();
  if (!declared || *declared > positions) return std::nullopt;
  return TextLength{*declared, "model_max_length in tokenizer_config.json"};
}

}  // namespace

std::string TextLength::line() const { return fmt::format("A sample has at most {} tokens, from {}.", tokens, source); }

TextLength text_length_of_training(std::int64_t asked, const Tokenizer& tokenizer, std::int64_t positions) {
  if (const auto length = asked_length(asked, positions)) return *length;
  const auto declared = declared_length(tokenizer, positions);
  if (declared && declared->tokens <= kLongestByDefault) return *declared;
  if (positions <= kLongestByDefault) return {positions, "the model's positions"};
  return {kLongestByDefault, fmt::format("the default; the model has {} positions", positions)};
}

TextLength text_length_of_saved(std::int64_t asked, const Tokenizer& tokenizer, std::int64_t positions) {
  if (const auto length = asked_length(asked, positions)) return *length;
  if (const auto declared = declared_length(tokenizer, positions)) return *declared;
  return text_length_of_training(asked, tokenizer, positions);
}

std::optional<TextLength> text_length_of_sentences(std::int64_t asked, std::optional<std::int64_t> declared,
                                                   std::int64_t positions) {
  if (asked != 0 || !declared || *declared > positions) return std::nullopt;
  return TextLength{*declared, "max_seq_length in sentence_bert_config.json"};
}

}  // namespace lockstep
