#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The value of one of the requested keys.
struct JsonValue {
  enum class Kind { Missing, Null, Text, Number, Boolean, Composite };
  Kind kind = Kind::Missing;
  std::string text;  ///< of texts and booleans; of numbers as written

  void set(Kind new_kind, std::string_view new_text) {
    kind = new_kind;
    text.assign(new_text);  // reuses the memory from line to line
  }
};

/// Reads the values of some keys from one line with one JSON object, in a single pass that builds nothing else.
///
/// It understands what such files usually contain, and returns false for anything else. A full parser then decides
/// whether the line is JSON, and describes the error. So a line that it accepts is valid (RFC 8259), but it does not
/// accept every valid line. It leaves to the full parser: surrogates written as escapes, nesting deeper than 63,
/// numbers of unusual length, and lines without one of the keys. One line at a time, one thread.
class JsonObjectScan {
 public:
  /// Finds `keys` and stores their values. If an object repeats a key, the last one counts.
  /// @param line  valid UTF-8
  /// @return  false if the line was not understood, or lacks a key; `values` are then unspecified
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
  std::size_t next_key_ = 0;   // most objects name their keys in one order
  std::uint64_t objects_ = 0;  // nesting of a composite value: a bit per level, 1 for an object
  int depth_ = 0;
  std::string unwanted_;  // a text that is only checked for its escapes
};

}  // namespace lockstep
