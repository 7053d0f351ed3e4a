#pragma once

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/hub/hub_settings.h"
#include "lockstep/hub/web_request.h"

namespace lockstep {

/// What the Hub, or the way to it, answered instead of what was asked for, in the words of a person.
/// @param id, revision  the model that was asked for
/// @param url  what was asked
Error hub_refusal(const HubSettings& settings, const WebAnswer& answer, const std::string& id,
                  const std::string& revision, const std::string& url);

}  // namespace lockstep
