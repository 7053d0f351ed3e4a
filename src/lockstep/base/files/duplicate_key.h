#pragma once

#include <string>

namespace lockstep {

/// Refuses JSON in which an object has a key twice: parsers silently use one of the two values, and which one differs
/// from parser to parser. Text that is not JSON is left to the parser.
/// @param path  named in errors
/// @throws UsageError  with file, line and key
void refuse_duplicate_keys(const std::string& text, const std::string& path);

}  // namespace lockstep
