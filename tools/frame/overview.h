#pragma once

#include <string>
#include <vector>

#include "tools/frame/command_line.h"

namespace lockstep {

/// What `lockstep --help` prints: every entry in the group that subcommands.inc puts it into, on one screen.
std::string overview_text(const std::vector<SubcommandEntry>& entries);

}  // namespace lockstep
