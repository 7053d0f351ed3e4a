#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_cause.h"

namespace lockstep {

/// The cause that a rank's last lines show, for ranks of Lockstep whose error file is lost: their environment lacked
/// TORCHELASTIC_ERROR_FILE. Only the text of an Error counts, which has its "where: " on a line of its own, and only
/// the last one. Nothing if that Error blames no rank, or if there is none.
std::optional<FailureCause> cause_in_text(const std::vector<std::string>& lines);

}  // namespace lockstep
