#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Refuses bytes that begin as a format that does not hold a text: compressed otherwise than by gzip or zstd, Arrow,
/// Parquet, a spreadsheet, an image. @throws Error  with path, the format's name, and what makes a text of it
void refuse_binary(std::string_view bytes, const std::string& path);

/// Refuses text that is stored as UTF-16 or UTF-32, as spreadsheets and PowerShell write it. Recognises it by its byte
/// order mark, or by NULs at every second place of its first characters. Refuses what refuse_binary refuses, too.
/// @throws Error  with path and the command that converts it
void refuse_wide_text(std::string_view bytes, const std::string& path);

}  // namespace lockstep
