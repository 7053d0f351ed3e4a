#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/nodes/outcome_news.h"

namespace lockstep {

/// What the launchers of a fixed number of nodes write into the job's store, as texts. `key` is named in errors:
/// whatever else stands there is refused with advice, since without a secret everyone who reaches the store may write
/// to it.

/// The beginning of a node's last word, of which the store adds the end.
constexpr const char* kLostLauncherMark = "lost:";
/// The story behind it, where the store wrote it in place of what the node itself would have said.
std::optional<std::string> story_of_loss(const std::string& text);

std::string text_of_outcome(const Outcome& outcome);
/// @throws Error  if `text` is neither an outcome nor a last word
Outcome outcome_in(const std::string& key, const std::string& text);

/// @throws Error  if `text` is no whole number from `least` to `most`
int launcher_number(const std::string& key, const std::string& text, int least, int most);

}  // namespace lockstep
