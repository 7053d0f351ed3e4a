#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// GPT-2 writes each byte as a visible character, so that its vocabulary is a text file: printable Latin-1 stands for
/// itself, the others follow from U+0100 on (a blank is U+0120, a line end U+010A).
char32_t byte_to_char(unsigned char byte);

/// The byte that `c` stands for, if it stands for one.
std::optional<unsigned char> char_to_byte(char32_t c);

/// `bytes` as they are written in the vocabulary.
std::string to_byte_level(std::string_view bytes);

/// The bytes that a token stands for; the token itself where one of its characters stands for no byte. `token` must be
/// well-formed UTF-8.
std::string from_byte_level(std::string_view token);

}  // namespace lockstep::text
