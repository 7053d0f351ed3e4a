#include "lockstep/data/text/tokenizer_core.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/text/encoders/bert_encoder.h"
#include "lockstep/data/text/encoders/byte_level_encoder.h"
#include "lockstep/data/text/files/splitter_json.h"
#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

constexpr std::size_t kLargestTextBytes = std::numeric_limits<std::int32_t>::max();

std::unique_ptr<TextEncoder> make_encoder(const TokenizerDocument& document) {
  if (is_word_piece(document)) {
    return make_bert_encoder(document.vocabulary, word_piece_options(document), normalizer_options(document));
  }
  const BytePairOptions model = byte_pair_options(document);  // first: its errors name other kinds of BPE
  if (auto split = declared_split(document)) {
    return make_split_byte_level_encoder(document.vocabulary, document.merges, model, std::move(*split));
  }
  return make_byte_level_encoder(document.vocabulary, document.merges, model, byte_level_options(document));
}

/// The span of an added token in the text. If blanks are trimmed, white space that the token took is not part of its
/// offsets.
TokenSpan span_of(std::string_view found, std::int32_t begin, std::int32_t end) {
  TokenSpan span = {begin, end, 0, 0};
  std::size_t at = 0;
  while (at < found.size() && is_white_space(decode_char(found.data(), &at))) ++span.leading_blanks;
  for (std::size_t last = found.size(); last > 0; ++span.trailing_blanks) {
    std::size_t start = last - 1;
    while (start > 0 && (static_cast<unsigned char>(found[start]) & 0xC0) == 0x80) --start;
    last = start;
    if (!is_white_space(decode_char(found.data(), &start))) break;
  }
  return span;
}

std::int32_t chars_in(std::string_view text) { return static_cast<std::int32_t>(count_chars(text)); }

}  // namespace

TokenizerCore::TokenizerCore(TokenizerDocument document)
    : document_(std::move(document)),
      encoder_(make_encoder(document_)),
      processor_(post_processor(document_)),
      decoder_(token_decoder(document_)),
      truncation_(declared_truncation(document_)),
      padding_(declared_padding(document_)) {
  check_added_tokens();
  id_limit_ = document_.vocabulary.id_limit();
  for (const AddedToken& token : document_.added_tokens) {
    if (token.between_spaces) continue;
    added_[token.id] = &token;
    id_limit_ = std::max(id_limit_, token.id + 1);
  }
  make_finders();
}

Tokenizer TokenizerCore::make_tokenizer(TokenizerDocument document) {
  return Tokenizer(std::make_shared<const TokenizerCore>(std::move(document)));
}

void TokenizerCore::check_added_tokens() const {
  const Vocabulary& vocabulary = document_.vocabulary;
  const std::string where = document_.where + ": added tokens";
  std::unordered_set<std::string> contents;
  std::unordered_set<TokenId> ids;
  for (const AddedToken& token : document_.added_tokens) {
    if (!contents.insert(token.content).second || (!token.between_spaces && !ids.insert(token.id).second)) {
      throw Error("the added token '" + token.content + "', number " + std::to_string(token.id) + ", occurs twice",
                  where, "remove one of them");
    }
    if (token.between_spaces) continue;
    const auto known = vocabulary.find(token.content);
    if (known && *known != token.id) {
      throw Error("the added token '" + token.content + "' has the number " + std::to_string(token.id) +
                      ", but the vocabulary gives it " + std::to_string(*known),
                  where, "take all files from the same tokenizer");
    }
    if (!known && vocabulary.contains(token.id)) {
      throw Error("the added token '" + token.content + "' has the number " + std::to_string(token.id) +
                      ", which the vocabulary gives to '" + vocabulary.token(token.id) + "'",
                  where, "take all files from the same tokenizer");
    }
    constexpr TokenId kMostUnusedIds = 1 << 20;
    if (token.id - vocabulary.id_limit() > kMostUnusedIds) {
      throw Error("the added token '" + token.content + "' has the number " + std::to_string(token.id) +
                      ", far above those of the vocabulary",
                  where, "number added tokens from " + std::to_string(vocabulary.id_limit()) + " on");
    }
  }
}

void TokenizerCore::make_finders() {
  std::vector<std::string> raw, normalized;
  std::vector<const AddedToken*> raw_tokens, normalized_tokens;
  for (const AddedToken& token : document_.added_tokens) {
    if (!token.normalized) {
      raw.push_back(token.content);
      raw_tokens.push_back(&token);
      continue;
    }
    std::string pattern = token.content;
    if (encoder_->normalizes()) {
      NormalizedText text;
      encoder_->normalize(token.content, 0, false, text);
      pattern = text.bytes;
      if (pattern != token.content) normalized_content_[token.id] = pattern;
    }
    if (pattern.empty() || std::find(normalized.begin(), normalized.end(), pattern) != normalized.end()) {
      throw Error("the added token '" + token.content + "' is " +
                      (pattern.empty() ? "nothing" : "the same as another") + " once it is normalized",
                  document_.where + ": added tokens", "remove it, or declare it as \"normalized\": false");
    }
    normalized.push_back(pattern);
    normalized_tokens.push_back(&token);
  }
  raw_tokens_ = AddedTokenFinder(raw, raw_tokens);
  normalized_tokens_ = AddedTokenFinder(normalized, normalized_tokens);
}

const std::string* TokenizerCore::token(TokenId id) const {
  if (const auto added = added_.find(id); added != added_.end()) return &added->second->content;
  return document_.vocabulary.contains(id) ? &document_.vocabulary.token(id) : nullptr;
}

Encoding TokenizerCore::encode(std::string_view first, const std::string_view* second, const EncodeOptions& options,
                               EncoderScratch& scratch) const {
  scratch.ids.clear();
  scratch.spans.clear();
  append(first, options.offsets, scratch);
  const std::size_t first_count = scratch.ids.size();
  if (second != nullptr) append(*second, options.offsets, scratch);

  const TokenSpan* spans = options.offsets ? scratch.spans.data() : nullptr;
  TokenRange first_range = {scratch.ids.data(), spans, static_cast<std::int64_t>(first_count)};
  TokenRange second_range = {scratch.ids.data() + first_count, spans != nullptr ? spans + first_count : nullptr,
                             static_cast<std::int64_t>(scratch.ids.size() - first_count)};
  TokenRange* pair = second != nullptr ? &second_range : nullptr;
  if (options.truncation) {
    const std::int64_t added = options.add_special_tokens ? processor_.added(pair != nullptr) : 0;
    truncate(*options.truncation, added, first_range, pair);
  }
  Encoding encoding = assemble(processor_, options, first_range, pair);
  if (!document_.has_token_types) std::fill(encoding.token_type_ids.begin(), encoding.token_type_ids.end(), 0);
  return encoding;
}

void TokenizerCore::append(std::string_view text, bool spans, EncoderScratch& scratch) const {
  if (text.size() >= kLargestTextBytes) {
    throw Error("the text has " + std::to_string(text.size()) + " bytes", "tokenizer", "cut it into parts below 2 GiB");
  }
  std::string replaced;
  if (!is_valid_utf8(text)) {
    replaced = replace_invalid_utf8(text);
    text = replaced;
  }
  if (raw_tokens_.may_find(text)) {
    append_segments(raw_tokens_, text, 0, spans, scratch);
  } else {
    append_text(text, 0, spans, scratch);
  }
}

void TokenizerCore::append_segments(const AddedTokenFinder& finder, std::string_view text, std::int32_t first_char,
                                    bool spans, EncoderScratch& scratch) const {
  std::size_t counted = 0;
  for (const TextSegment& segment : finder.split(text)) {
    const std::string_view part = text.substr(segment.begin, segment.end - segment.begin);
    if (spans && segment.begin > counted) {
      first_char += chars_in(text.substr(counted, segment.begin - counted));
      counted = segment.begin;
    }
    if (segment.token != nullptr) {
      scratch.ids.append(&segment.token->id, 1);
      if (spans) scratch.spans.push_back(span_of(part, first_char, first_char + chars_in(part)));
    } else if (&finder == &raw_tokens_) {
      append_text(part, first_char, spans, scratch);
    } else if (spans) {
      encoder_->encode_with_spans(part, first_char, scratch);
    } else {
      encoder_->encode(part, scratch);
    }
  }
}

void TokenizerCore::append_text(std::string_view text, std::int32_t first_char, bool spans,
                                EncoderScratch& scratch) const {
  if (!normalized_tokens_.empty() && encoder_->normalizes()) {
    append_normalized(text, first_char, scratch);
  } else if (normalized_tokens_.may_find(text)) {
    append_segments(normalized_tokens_, text, first_char, spans, scratch);
  } else if (spans) {
    encoder_->encode_with_spans(text, first_char, scratch);
  } else {
    encoder_->encode(text, scratch);
  }
}

void TokenizerCore::append_normalized(std::string_view text, std::int32_t first_char, EncoderScratch& scratch) const {
  NormalizedText normalized;
  encoder_->normalize(text, static_cast<std::uint32_t>(first_char), true, normalized);
  for (const TextSegment& segment : normalized_tokens_.split(normalized.bytes)) {
    if (segment.token == nullptr) {
      encoder_->encode_normalized(normalized, segment.begin, segment.end, scratch);
      continue;
    }
    scratch.ids.append(&segment.token->id, 1);
    const std::string_view part = std::string_view(normalized.bytes).substr(segment.begin, segment.end - segment.begin);
    scratch.spans.push_back(span_of(part, static_cast<std::int32_t>(normalized.source[segment.begin]),
                                    static_cast<std::int32_t>(normalized.source[segment.end - 1] + 1)));
  }
}

std::string TokenizerCore::decode(const std::vector<TokenId>& ids, const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string* content = token(ids[i]);
    if (content == nullptr) {
      throw Error("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                      " is not in the vocabulary, whose ids end at " + std::to_string(id_limit_ - 1),
                  "decode", "decode with the tokenizer that belongs to the model");
    }
    const auto added = added_.find(ids[i]);
    if (options.skip_special_tokens && added != added_.end() && added->second->special) continue;
    const auto normalized = normalized_content_.find(ids[i]);
    tokens.push_back(normalized != normalized_content_.end() ? normalized->second : *content);
  }
  if (!options.clean_up) {
    return document_.cleans_up ? clean_up_text(decoder_.decode(tokens)) : decoder_.decode(tokens);
  }
  TokenDecoder plain = decoder_;
  plain.cleanup = false;
  const std::string text = plain.decode(tokens);
  return *options.clean_up ? clean_up_text(text) : text;
}

std::unique_ptr<EncoderScratch> TokenizerCore::take_scratch() const {
  {
    std::lock_guard<std::mutex> lock(pool_mutex_);
    if (!pool_.empty()) {
      std::unique_ptr<EncoderScratch> scratch = std::move(pool_.back());
      pool_.pop_back();
      return scratch;
    }
    // Reserved now, so that giving it back cannot fail.
    pool_.reserve(pool_.capacity() + 1);
  }
  return std::make_unique<EncoderScratch>();
}

void TokenizerCore::give_back(std::unique_ptr<EncoderScratch> scratch) const noexcept {
  std::lock_guard<std::mutex> lock(pool_mutex_);
  if (pool_.size() < pool_.capacity()) pool_.push_back(std::move(scratch));
}

}  // namespace lockstep::text
