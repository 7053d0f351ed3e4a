#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/texts/text_row_checks.h"

namespace lockstep {

/// The label that a number is, as its text: a class written as 1.0 is class 1.
/// @param fractions  a number with a fraction is a measurement, and may be a label under its text
/// @throws Error  if it has a fraction and is a class, or is not a number
std::string number_label(std::string_view text, const std::string& label, bool fractions,
                         const TextRowChecks::Where& where);

}  // namespace lockstep
