#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

/// Reads a text once from its first character to its last, in time linear in the text, whatever the text is. Character
/// classes are ASCII's.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  /// Takes the next character, if it is one of `these`.
  bool take(std::string_view these) {
    if (at_end() || these.find(text_[at_]) == std::string_view::npos) return false;
    ++at_;
    return true;
  }
  /// Takes the next characters, if they are `word`.
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  /// Takes everything up to the first character that is not one of `these`, but at most `most` characters.
  std::string_view take_all(std::string_view these, std::size_t most = std::string_view::npos) {
    const std::size_t begin = at_;
    while (at_ - begin < most && take(these)) {
    }
    return text_.substr(begin, at_ - begin);
  }
  std::string_view digits(std::size_t most = std::string_view::npos) { return take_all("0123456789", most); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr std::string_view kNameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kNameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
constexpr std::string_view kBlanks = " \t\r\n\v\f";

}  // namespace lockstep
