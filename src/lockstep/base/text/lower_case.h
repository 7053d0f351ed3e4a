#pragma once

#include <string>

namespace lockstep {

/// `text` with the letters A to Z in lower case; all other bytes stay as they are, whatever the locale.
inline std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace lockstep
