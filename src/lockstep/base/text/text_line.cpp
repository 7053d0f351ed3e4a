#include "lockstep/base/text/text_line.h"

#include <algorithm>

namespace lockstep {

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find_first_of("\r\n"), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.size(), end + (rest.substr(end, 2) == "\r\n" ? 2 : 1)));
  return line;
}

bool LineReader::next(std::string& line) {
  if (rest_.empty()) {
    if (!std::getline(in_, text_)) return false;
    text_ += '\n';  // so that no line is lost if it is empty, or ends with CR
    rest_ = text_;
  }
  line = take_line(rest_);
  return true;
}

}  // namespace lockstep
