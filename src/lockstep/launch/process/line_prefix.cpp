#include "lockstep/launch/process/line_prefix.h"

namespace lockstep {
namespace {

constexpr std::size_t kLongestLineBytes = 64UL * 1024;

}  // namespace

std::string LinePrefix::feed(std::string_view piece) {
  std::string out;
  for (const char letter : piece) {
    if (letter == '\n' && after_return_ && line_.empty()) {
      out += letter;  // the second half of a line end "\r\n"
      after_return_ = false;
      continue;
    }
    line_ += letter;
    after_return_ = letter == '\r';
    if (letter == '\n' || letter == '\r' || line_.size() >= kLongestLineBytes) {
      out += prefix_ + line_;
      line_.clear();
    }
  }
  return out;
}

std::string LinePrefix::finish() {
  if (line_.empty()) return "";
  std::string out = prefix_ + line_ + "\n";
  line_.clear();
  return out;
}

}  // namespace lockstep
