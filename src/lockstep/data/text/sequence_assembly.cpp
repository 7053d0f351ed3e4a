#include "lockstep/data/text/sequence_assembly.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::text {
namespace {

Error too_long(const std::string& what, std::int64_t max_length) {
  return Error(what, "truncation to max_length " + std::to_string(max_length),
               "raise max_length, or truncate by longest_first");
}

void keep(TokenRange& range, std::int64_t count, SequenceSide side) {
  if (range.count <= count) return;
  if (side == SequenceSide::Left) {
    const std::int64_t dropped = range.count - count;
    range.ids += dropped;
    if (range.spans != nullptr) range.spans += dropped;
  }
  range.count = count;
}

/// Lengths of two texts that share `room`: the longer one is shortened until both are equal, then both are.
std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second, std::int64_t room) {
  const bool swapped = first > second;
  std::int64_t shorter = std::min(first, second);
  std::int64_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return swapped ? std::make_pair(longer, shorter) : std::make_pair(shorter, longer);
}

/// Offsets without the blanks at a token's ends. A blank that was added before the first word is not in the text.
CharSpan trimmed(const TokenSpan& span, bool first_of_text, bool add_prefix_space) {
  std::int32_t leading = span.leading_blanks;
  if (leading == 1 && add_prefix_space && (first_of_text || span.begin == 0)) leading = 0;
  CharSpan result = {std::min(span.begin + leading, span.end), span.end};
  if (span.trailing_blanks > 0 && result.end >= span.trailing_blanks) {
    result.end = std::max(result.end - span.trailing_blanks, result.begin);
  }
  return result;
}

void append_text(const PostProcessor& processor, const TokenRange& range, std::int32_t type_id, bool offsets,
                 Encoding& out) {
  const auto count = static_cast<std::size_t>(range.count);
  out.ids.insert(out.ids.end(), range.ids, range.ids + count);
  out.token_type_ids.insert(out.token_type_ids.end(), count, type_id);
  out.special_tokens_mask.insert(out.special_tokens_mask.end(), count, 0);
  if (!offsets) return;
  for (std::size_t i = 0; i < count; ++i) {
    const TokenSpan& span = range.spans[i];
    const bool trim = processor.trim_offsets && (span.leading_blanks > 0 || span.trailing_blanks > 0);
    out.offsets.push_back(trim ? trimmed(span, i == 0, processor.add_prefix_space) : CharSpan{span.begin, span.end});
  }
}

template <typename T>
void pad_vector(std::vector<T>& values, std::size_t count, const T& value, SequenceSide side) {
  values.insert(side == SequenceSide::Right ? values.end() : values.begin(), count, value);
}

}  // namespace

std::int64_t PostProcessor::added(bool is_pair) const {
  std::int64_t count = 0;
  for (const TemplatePiece& piece : pieces(is_pair)) count += static_cast<std::int64_t>(piece.ids.size());
  return count;
}

void truncate(const Truncation& truncation, std::int64_t added, TokenRange& first, TokenRange* second) {
  const std::int64_t room = truncation.max_length - added;
  if (room < 0 || truncation.max_length < 0) {
    throw Error("max_length " + std::to_string(truncation.max_length) + " leaves no room for the " +
                    std::to_string(added) + " special tokens",
                "truncation", "raise max_length, or encode without special tokens");
  }
  const std::int64_t excess = first.count + (second != nullptr ? second->count : 0) - room;
  if (excess <= 0) return;
  const SequenceSide side = truncation.side.value_or(SequenceSide::Right);
  if (truncation.strategy == TruncationStrategy::LongestFirst || room == 0) {
    const auto [first_count, second_count] =
        second != nullptr ? longest_first(first.count, second->count, room) : std::make_pair(room, std::int64_t{0});
    keep(first, first_count, side);
    if (second != nullptr) keep(*second, second_count, side);
    return;
  }
  const bool only_second = truncation.strategy == TruncationStrategy::OnlySecond;
  if (only_second && second == nullptr) {
    throw too_long("only the second text may be shortened, but there is only one", truncation.max_length);
  }
  TokenRange& target = only_second ? *second : first;
  if (target.count <= excess) {
    throw too_long("the texts are " + std::to_string(excess) + " tokens too long, but the " +
                       (only_second ? "second" : "first") + " one, the only one that may be shortened, has only " +
                       std::to_string(target.count),
                   truncation.max_length);
  }
  keep(target, target.count - excess, side);
}

Encoding assemble(const PostProcessor& processor, const EncodeOptions& options, const TokenRange& first,
                  const TokenRange* second) {
  Encoding out;
  const std::size_t special =
      options.add_special_tokens ? static_cast<std::size_t>(processor.added(second != nullptr)) : 0;
  const std::size_t total = static_cast<std::size_t>(first.count + (second != nullptr ? second->count : 0)) + special;
  out.ids.reserve(total);
  out.token_type_ids.reserve(total);
  out.special_tokens_mask.reserve(total);
  if (options.offsets) out.offsets.reserve(total);
  for (const TemplatePiece& piece : processor.pieces(second != nullptr)) {
    if (piece.kind != TemplatePiece::Kind::Special) {
      const TokenRange& range = piece.kind == TemplatePiece::Kind::First ? first : *second;
      append_text(processor, range, piece.type_id, options.offsets, out);
    } else if (options.add_special_tokens) {
      out.ids.insert(out.ids.end(), piece.ids.begin(), piece.ids.end());
      out.token_type_ids.insert(out.token_type_ids.end(), piece.ids.size(), piece.type_id);
      out.special_tokens_mask.insert(out.special_tokens_mask.end(), piece.ids.size(), 1);
      if (options.offsets) out.offsets.insert(out.offsets.end(), piece.ids.size(), CharSpan{});
    }
  }
  out.attention_mask.assign(out.ids.size(), 1);
  return out;
}

void pad(const Padding& padding, const PadToken& token, bool offsets, Encoding* encodings, std::size_t count) {
  std::size_t length = padding.mode == PaddingMode::MaxLength ? static_cast<std::size_t>(padding.max_length) : 0;
  if (padding.mode == PaddingMode::Longest) {
    for (std::size_t i = 0; i < count; ++i) length = std::max(length, encodings[i].ids.size());
  }
  const auto multiple = static_cast<std::size_t>(padding.multiple_of);
  if (multiple > 0) length = (length + multiple - 1) / multiple * multiple;
  for (std::size_t i = 0; i < count; ++i) {
    Encoding& encoding = encodings[i];
    if (encoding.ids.size() >= length) continue;
    const std::size_t missing = length - encoding.ids.size();
    pad_vector(encoding.ids, missing, token.id, padding.side);
    pad_vector(encoding.token_type_ids, missing, token.type_id, padding.side);
    pad_vector(encoding.attention_mask, missing, 0, padding.side);
    pad_vector(encoding.special_tokens_mask, missing, 1, padding.side);
    if (offsets) pad_vector(encoding.offsets, missing, CharSpan{}, padding.side);
  }
}

}  // namespace lockstep::text
