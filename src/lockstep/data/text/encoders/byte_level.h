#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// GPT-2 writes each byte as a visible character, so that its vocabulary is a text file: printable Latin-1 characters
/// represent themselves, the other bytes are U+0100 and following (a blank is U+0120, a line end U+010A).
char32_t byte_to_char(unsigned char byte);

/// The byte that `c` represents, if it represents one.
std::optional<unsigned char> char_to_byte(char32_t c);

/// `bytes` in the form of the vocabulary.
std::string to_byte_level(std::string_view bytes);

/// The bytes that a token represents; the token itself if one of its characters represents no byte. `token` must be
/// well-formed UTF-8.
std::string from_byte_level(std::string_view token);

}  // namespace lockstep::text
