#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Remembers the end of a text that arrives in pieces: its last 16 KiB. The stack that LibTorch puts behind an error's
/// message, lines that begin with "frame #", is counted and not kept: it would push the message out.
class TextTail {
 public:
  void feed(std::string_view piece);
  /// The last lines that are not empty, at most `count`, without line ends. One line stands for those of a stack.
  std::vector<std::string> last_lines(std::size_t count) const;
  /// All that is remembered.
  std::string text() const;

 private:
  void end_line(char end);
  void tell_frames();
  void keep(std::string_view text);

  std::string text_;  // whole lines
  std::string line_;  // the one that has not ended
  std::size_t frames_ = 0;
};

/// The end of the file `path`; empty where it cannot be read.
TextTail tail_of_file(const std::string& path);

}  // namespace lockstep
