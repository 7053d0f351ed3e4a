#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Puts a prefix before each line of a stream that arrives in pieces. A line ends with a line feed, or with a carriage
/// return, with which progress bars start over.
class LinePrefix {
 public:
  explicit LinePrefix(std::string prefix) : prefix_(std::move(prefix)) {}
  /// The lines that `piece` completed. The rest is kept, up to 64 KiB: a longer line is returned in parts.
  std::string feed(std::string_view piece);
  /// The unfinished line at the end of the stream, with a line feed; empty if there is none.
  std::string finish();

 private:
  std::string prefix_;
  std::string line_;
  bool after_return_ = false;
};

}  // namespace lockstep
