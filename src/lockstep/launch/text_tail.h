#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Remembers the end of a text that arrives in pieces: its last 16 KiB.
class TextTail {
 public:
  void feed(std::string_view piece);
  /// The last lines that are not empty, at most `count`, without line ends.
  std::vector<std::string> last_lines(std::size_t count) const;
  /// All that is remembered.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The end of the file `path`; empty where it cannot be read.
TextTail tail_of_file(const std::string& path);

}  // namespace lockstep
