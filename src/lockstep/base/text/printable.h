#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// The most characters of a foreign value that a message shows.
constexpr std::size_t kMostShown = 200;

/// Text from a file, a peer or a command line as it may be shown on a terminal and in one line: control characters,
/// those that turn the direction of writing, and bytes that are no UTF-8 are written as \n, \t, \xNN or \uNNNN; of a
/// longer text the beginning and its size are shown. All else stays as it is, a backslash too.
/// @param most  characters of the text that are shown
std::string printable(std::string_view text, std::size_t most = kMostShown);

/// The same for a message of several lines: its line ends stay, and each line is cut by itself.
std::string printable_lines(std::string_view text, std::size_t most_of_a_line = 2000);

}  // namespace lockstep
