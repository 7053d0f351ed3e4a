#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::text {

/// The end of the word that starts at `at`, by GPT-2's pattern (Radford et al., 2019):
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
/// Its matches cover the whole text. `text` is well-formed UTF-8, and `at` is inside.
std::size_t gpt2_word_end(std::string_view text, std::size_t at);

/// Bytes of the contraction that starts with the apostrophe at `at`, such as 3 for 're; 0 if there is none.
std::size_t contraction_length(std::string_view text, std::size_t at);

}  // namespace lockstep::text
