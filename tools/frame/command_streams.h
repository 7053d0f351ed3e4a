// Where a command reads and writes.
#pragma once

#include <iosfwd>

namespace lockstep {

/// The streams of a command: those of its process, or those that another program, such as a test, gives it.
struct CommandStreams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool in_is_terminal = false;   ///< a person types, and waits for an answer to each line
  bool err_is_terminal = false;  ///< a person reads: lines may be overwritten
};

/// Those of this process.
CommandStreams standard_streams();

}  // namespace lockstep
