#include "tools/frame/command_streams.h"

#include <unistd.h>

#include <iostream>

namespace lockstep {

CommandStreams standard_streams() {
  return {std::cin, std::cout, std::cerr, ::isatty(STDIN_FILENO) == 1, ::isatty(STDERR_FILENO) == 1};
}

}  // namespace lockstep
