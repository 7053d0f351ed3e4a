#pragma once

#include <string>

namespace lockstep {

/// Checks `path`, the value of --plot: its ending must be a format that this build can write (.svg, or .png if librsvg
/// was found when Lockstep was configured), and its folder must exist. Call it before anything is measured.
/// @throws UsageError  that says what to do instead
void check_chart_path(const std::string& path);

/// Writes `svg` to `path`, unchanged or as PNG. @throws Error  if it cannot be written, UsageError as check_chart_path
void write_chart(const std::string& path, const std::string& svg);

}  // namespace lockstep
