#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Refuses text that is stored as UTF-16 or UTF-32, as spreadsheets and PowerShell write it. Recognises it by its byte
/// order mark, or by NULs at every second place of its first characters.
/// @throws Error  with path and the command that converts it
void refuse_wide_text(std::string_view bytes, const std::string& path);

}  // namespace lockstep
