#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Keeps the end of a text that arrives in pieces: its last 16 KiB. Lines that begin with "frame #", the stack that
/// LibTorch appends to an error's message, are counted and not kept: they would push the message out.
class TextTail {
 public:
  void feed(std::string_view piece);
  /// The last lines that are not empty, at most `count`, without line ends. One line stands for the lines of a stack.
  std::vector<std::string> last_lines(std::size_t count) const;
  /// All text that is kept.
  std::string text() const;

 private:
  void end_line(char end);
  void tell_frames();
  void keep(std::string_view text);

  std::string text_;  // whole lines
  std::string line_;  // the unfinished line
  std::size_t frames_ = 0;
};

/// The end of the file `path`; empty if it cannot be read.
TextTail tail_of_file(const std::string& path);

}  // namespace lockstep
