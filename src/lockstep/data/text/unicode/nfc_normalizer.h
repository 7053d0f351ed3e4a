#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

/// Whether normalize_nfc() would change nothing. False if it might.
bool is_surely_nfc(std::string_view text);

/// Normalization form C as Hugging Face's tokenizers have it, with the tables of Unicode 9.0.
/// @param source  becomes, for each byte of the result, the index of the character of `text` that it is from, counted
/// from `first_char`; null: not asked for
std::string normalize_nfc(std::string_view text, std::uint32_t first_char, std::vector<std::uint32_t>* source);

}  // namespace lockstep::text
