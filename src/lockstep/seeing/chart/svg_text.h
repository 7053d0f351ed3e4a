#pragma once

#include <string>

namespace lockstep {

/// `text` with &, <, > and quotes escaped for HTML and SVG.
std::string html_escaped(const std::string& text);

/// A number in a short form for people: 0.6931, 5e-05, 1.2e+06.
std::string short_number(double value);

}  // namespace lockstep
