#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The value of one of the requested keys.
struct JsonValue {
  enum class Kind { Missing, Null, Text, Number, Boolean, Composite };
  Kind kind = Kind::Missing;
  /// A text or boolean as it is, a number as written, a list as JSON without blanks. Valid until the next line.
  std::string_view text;
};

/// Reads the values of some keys from one line with one JSON object, with simdjson.
///
/// It understands what such files usually contain, and returns false for anything else. A full parser then decides
/// whether the line is JSON, and describes the error. So a line that it accepts is valid (RFC 8259, UTF-8), but it does
/// not accept every valid line. It leaves to the full parser: nesting deeper than 1024, integers of more than 64 bits,
/// lines longer than kLongestLine, and lines without one of the keys. One line at a time, one thread.
class JsonObjectScan {
 public:
  /// simdjson takes about ten times a line's bytes as memory; the full parser takes none.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

  JsonObjectScan();
  ~JsonObjectScan();

  /// Finds `keys` and stores their values. If an object repeats a key, the last one counts.
  /// @param behind  bytes behind the line that may be read, whatever they are: a line with few of them is copied
  /// @return  false if the line was not understood, or lacks a key; `values` are then unspecified
  bool scan(std::string_view line, std::size_t behind, const std::vector<std::string>& keys,
            std::vector<JsonValue>& values);

 private:
  struct Parsers;
  using Digits = std::array<char, 20>;  // of any integer of 64 bits, and a sign

  bool scan_values(std::string_view line, std::vector<JsonValue>& values);
  bool scan_fractions(std::string_view line, std::vector<JsonValue>& values);
  std::size_t wanted_key(std::string_view key);

  std::unique_ptr<Parsers> parsers_;
  std::string padded_;  // a line with few bytes behind it
  const std::vector<std::string>* keys_ = nullptr;
  std::size_t next_key_ = 0;        // most objects name their keys in one order
  std::vector<Digits> digits_;      // one per key
  std::vector<std::string> lists_;  // one per key
  std::vector<char> fractions_;     // one per key: whether its value has a fraction or an exponent
};

}  // namespace lockstep
