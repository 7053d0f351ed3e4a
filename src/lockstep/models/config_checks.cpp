#include "lockstep/models/config_checks.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

void ConfigChecks::refuse(const char* field, const std::string& problem, const std::string& fix) const {
  throw Error(fmt::format("\"{}\" {}", field, problem), fmt::format("{}, field \"{}\"", where_, field), fix);
}

void ConfigChecks::heads_divide(const Field& width, const Field& heads) const {
  if (width.value > 0 && heads.value > 0 && width.value % heads.value == 0) return;
  refuse(width.name,
         fmt::format("is {}, which is not divisible by {} attention heads ({})", width.value, heads.value, heads.name),
         fmt::format("give a multiple of {}", heads.name));
}

void ConfigChecks::vocabulary(std::int64_t vocab_size, const std::optional<std::int64_t>& pad_token_id) const {
  if (vocab_size < 1) refuse("vocab_size", "is not positive", "give the tokenizer's number of tokens");
  if (!pad_token_id || (*pad_token_id >= 0 && *pad_token_id < vocab_size)) return;
  refuse("pad_token_id", fmt::format("is {}, outside the vocabulary of {}", *pad_token_id, vocab_size),
         "give an id below vocab_size");
}

void ConfigChecks::positive(const Field& field, const char* fix) const {
  if (field.value < 1) refuse(field.name, "is not positive", fix);
}

void ConfigChecks::layers(const Field& count) const {
  if (count.value < 0) refuse(count.name, "is negative", "give a number of layers");
}

void ConfigChecks::labels(const SequenceHead& head) const {
  if (head.labels.empty()) refuse("num_labels", "is 0", "give at least one label");
}

}  // namespace lockstep
