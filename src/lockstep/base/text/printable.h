#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Most characters of foreign text that a message shows.
constexpr std::size_t kMostShown = 200;

/// Text from a file, a peer or a command line, made safe for a terminal and for one line. Control characters,
/// characters that change the direction of writing, and invalid UTF-8 become \n, \t, \xNN or \uNNNN. A longer text is
/// cut to its beginning, followed by its size. Everything else stays as it is, also a backslash.
/// @param most  characters of the text that are shown
std::string printable(std::string_view text, std::size_t most = kMostShown);

/// `printable` for a message of several lines: line ends stay, and each line is cut separately.
std::string printable_lines(std::string_view text, std::size_t most_of_a_line = 2000);

/// Where `text` stops being UTF-8: the position of the first byte that belongs to no character.
std::optional<std::size_t> invalid_utf8_at(std::string_view text);

}  // namespace lockstep
