#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// The number of line ends in `text`: LF, CRLF and CR each end one line.
std::int64_t count_line_ends(std::string_view text);

}  // namespace lockstep
