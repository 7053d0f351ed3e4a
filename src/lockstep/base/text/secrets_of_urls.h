#pragma once

#include <string>

namespace lockstep {

/// What is shown in place of something secret.
constexpr const char* kHiddenSecret = "...";

/// "https://...@host" in place of "https://user:password@host", also without a scheme.
std::string without_users(std::string text);

/// "https://hooks.slack.com/..." in place of the address at which anyone may post.
std::string without_hooks(std::string text);

}  // namespace lockstep
