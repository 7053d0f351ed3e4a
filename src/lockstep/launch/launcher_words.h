#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/nodes/outcome_signal.h"

namespace lockstep {

/// The texts that launchers of a fixed number of nodes write into the job's store. `key` is named in errors: any other
/// text is refused with advice, because without a secret everyone who reaches the store may write to it.

/// The start of a node's last will; the store appends the cause.
constexpr const char* kLostLauncherMark = "lost:";
/// The story of a last will, if `text` is one that the store published in the node's place.
std::optional<std::string> story_of_loss(const std::string& text);

std::string text_of_outcome(const Outcome& outcome);
/// @throws Error  if `text` is neither an outcome nor a last will
Outcome outcome_in(const std::string& key, const std::string& text);

/// @throws Error  if `text` is not a whole number from `least` to `most`
int launcher_number(const std::string& key, const std::string& text, int least, int most);

}  // namespace lockstep
