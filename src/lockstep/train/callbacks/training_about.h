#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// What is trained, on what, by which command and where: an object for the log, which `lockstep report` shows.
nlohmann::json training_about(const TrainerContext& context);

/// The words of a command as a shell takes them. What follows a flag such as --hub-token, --api-key or --password is
/// left out: the log may be passed on.
std::string shown_command(const std::vector<std::string>& words);

}  // namespace lockstep
