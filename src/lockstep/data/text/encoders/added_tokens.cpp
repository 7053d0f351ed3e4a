#include "lockstep/data/text/encoders/added_tokens.h"

#include <algorithm>

#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

/// Start of the character that ends at `end`, which is not 0.
std::size_t char_before(std::string_view text, std::size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

char32_t char_at(std::string_view text, std::size_t at) { return decode_char(text.data(), &at); }

template <typename Test>
bool ends_with(std::string_view text, Test test) {
  return !text.empty() && test(char_at(text, char_before(text, text.size())));
}

template <typename Test>
bool starts_with(std::string_view text, Test test) {
  return !text.empty() && test(char_at(text, 0));
}

std::size_t spaces_from(std::string_view text, std::size_t at) {
  while (at < text.size() && is_white_space(char_at(text, at))) decode_char(text.data(), &at);
  return at;
}

std::size_t spaces_until(std::string_view text, std::size_t end) {
  while (ends_with(text.substr(0, end), is_white_space)) end = char_before(text, end);
  return end;
}

bool may_stand(const AddedToken& token, std::string_view before, std::string_view after) {
  if (token.single_word && (ends_with(before, is_word_char) || starts_with(after, is_word_char))) return false;
  if (!token.between_spaces) return true;
  return (before.empty() || ends_with(before, is_white_space)) && (after.empty() || starts_with(after, is_white_space));
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<std::string>& patterns,
                                   const std::vector<const AddedToken*>& tokens)
    : tokens_(tokens) {
  std::vector<std::pair<std::string_view, TokenId>> numbered;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    numbered.emplace_back(patterns[i], static_cast<TokenId>(i));
    const char first = patterns[i].front();
    bool& known = starts_token_[static_cast<unsigned char>(first)];
    if (!known) first_bytes_.push_back(first);
    known = true;
  }
  trie_ = TokenTrie(std::move(numbered));
}

std::size_t AddedTokenFinder::next_candidate(std::string_view text, std::size_t from) const {
  if (first_bytes_.size() == 1) return std::min(text.find(first_bytes_.front(), from), text.size());
  while (from < text.size() && !starts_token_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

std::vector<TextSegment> AddedTokenFinder::split(std::string_view text) const {
  std::vector<TextSegment> segments;
  std::size_t text_at = 0;
  for (std::size_t at = next_candidate(text, 0); at < text.size(); at = next_candidate(text, at)) {
    const TokenTrie::Match match = trie_.longest_prefix(text.substr(at));
    if (match.length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = *tokens_[static_cast<std::size_t>(match.id)];
    std::size_t begin = at;
    std::size_t end = at + match.length;
    at = end;
    if (!may_stand(token, text.substr(0, begin), text.substr(end))) continue;
    // An earlier token may have taken the white space before this one: then it belongs to both.
    if (token.lstrip) begin = std::max(spaces_until(text, begin), text_at);
    if (token.rstrip) end = spaces_from(text, end);
    if (text_at < begin) segments.push_back({text_at, begin, nullptr});
    segments.push_back({begin, end, &token});
    text_at = end;
  }
  if (text_at < text.size()) segments.push_back({text_at, text.size(), nullptr});
  return segments;
}

}  // namespace lockstep::text
