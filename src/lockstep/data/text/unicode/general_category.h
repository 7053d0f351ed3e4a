#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::text {

/// The general category of `c` in Unicode 16.0, the version of Hugging Face's tokenizers 0.23, as a bit of ICU's masks
/// (U_GC_LU_MASK...). ICU may have another version.
std::uint32_t category_mask(char32_t c);

/// The categories that "L", "Lu", "N"... name, as bits; nothing for another name.
std::optional<std::uint32_t> category_mask_of_name(std::string_view name);

}  // namespace lockstep::text
