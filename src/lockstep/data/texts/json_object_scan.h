#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A value of one of the keys that were asked for.
struct JsonValue {
  enum class Kind { Missing, Null, Text, Number, Boolean, Composite };
  Kind kind = Kind::Missing;
  std::string text;  ///< of texts and booleans; of numbers as they stand

  void set(Kind new_kind, std::string_view new_text) {
    kind = new_kind;
    text.assign(new_text);  // the memory is used again from line to line
  }
};

/// Picks the values of some keys out of one line with one JSON object, in a single pass that builds nothing else.
///
/// It understands what such files hold, and says so where it does not: then a full parser decides whether the line is
/// JSON, and names what is wrong. So what it takes for valid is valid (RFC 8259), but not the other way round. Left to
/// the full parser are surrogates written by escapes, nesting deeper than 63, numbers of unusual length, and lines that
/// lack one of the keys. One line at a time, one thread.
class JsonObjectScan {
 public:
  /// Looks for `keys`, where the last of equal keys in an object counts, and stores their values.
  /// @param line  valid UTF-8
  /// @return  false if the line was not understood, or lacks a key; `values` then hold anything
  bool scan(std::string_view line, const std::vector<std::string>& keys, std::vector<JsonValue>& values);

 private:
  bool scan_object();
  bool scan_key(std::string_view* key);
  JsonValue* wanted_value(std::string_view key);
  bool scan_value(JsonValue* value);
  bool scan_text(JsonValue* value);
  bool scan_number(JsonValue* value);
  bool scan_word(std::string_view word, JsonValue::Kind kind, JsonValue* value);
  bool skip_composite();
  bool open();
  char closing() const { return (objects_ & 1) != 0 ? '}' : ']'; }
  void skip_blanks();
  bool take(char wanted);
  bool take_digits();
  char peek() const { return at_ < end_ ? *at_ : '\0'; }

  const char* at_ = nullptr;
  const char* end_ = nullptr;
  const std::vector<std::string>* keys_ = nullptr;
  std::vector<JsonValue>* values_ = nullptr;
  std::size_t next_key_ = 0;   // objects mostly name their keys in the same order
  std::uint64_t objects_ = 0;  // nesting of a composite value: a bit per level, 1 for an object
  int depth_ = 0;
  std::string unwanted_;  // a text that is looked at for its escapes alone
};

}  // namespace lockstep
