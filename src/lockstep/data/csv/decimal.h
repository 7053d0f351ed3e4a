#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

/// `text` as a finite decimal number (12, -0.5, 1e-3, +7), rounded correctly to double, whatever the locale. Nothing if
/// the text is anything else: spaces, hexadecimal, nan, inf, or a number out of double's range.
std::optional<double> parse_decimal(std::string_view text);

}  // namespace lockstep
