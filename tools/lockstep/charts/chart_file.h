#pragma once

#include <string>

namespace lockstep {

/// Whether `path`, of --plot, names a kind of picture that this build can write: .svg, or .png where librsvg was there
/// when Lockstep was configured; and whether its folder is there. To be asked before anything is measured.
/// @throws UsageError  that says what to do instead
void check_chart_path(const std::string& path);

/// Writes `svg` to `path`, as it is or as PNG. @throws Error  if it cannot be written, UsageError as check_chart_path
void write_chart(const std::string& path, const std::string& svg);

}  // namespace lockstep
