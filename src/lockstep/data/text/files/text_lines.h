#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// The whole file `path`, refused if it is larger than any tokenizer's file can be (1 GiB).
/// @throws Error  with path and cause
std::string read_tokenizer_file(const std::string& path);

/// Calls `use(line, "FILE:LINE")` for each line of the UTF-8 file `path`, without its end (\n or \r\n). A line end at
/// the end of the file does not start an empty line.
/// @throws Error  with file and line, for invalid UTF-8 or a NUL
void for_each_line(const std::string& path, const std::function<void(std::string_view, const std::string&)>& use);

}  // namespace lockstep::text
