#pragma once

#include <istream>
#include <string>
#include <string_view>

namespace lockstep {

/// Takes the first line from `rest`, and with it the line's end, which is not part of what is returned. Lines end with
/// LF, CRLF or CR.
std::string_view take_line(std::string_view& rest);

/// The lines of a stream, which end in the same ways. Waits for no more than a line that ends with LF.
class LineReader {
 public:
  explicit LineReader(std::istream& in) : in_(in) {}

  /// Reads the next line into `line`, without its end. False at the end of the stream, or if it cannot be read.
  bool next(std::string& line);

 private:
  std::istream& in_;
  std::string text_;       // up to an LF
  std::string_view rest_;  // the lines in it that are still to come
};

}  // namespace lockstep
