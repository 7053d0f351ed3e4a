#pragma once

#include <string>

#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/lr_scheduler.h"

namespace lockstep {

constexpr const char* kSchedulerFile = "scheduler.json";
constexpr const char* kScalerFile = "scaler.json";

/// `scheduler.json` and `scaler.json`: convert the state of a schedule or a gradient scaler to JSON text and back.
/// Numbers are exact to the bit. Reading throws Error, naming `path`, if the text is not of that kind.
std::string schedule_json(const LambdaLR::State& state);
std::string schedule_json(const ReduceLROnPlateau::State& state);
std::string scaler_json(const GradScaler::State& state);

LambdaLR::State parse_lambda_lr(const std::string& text, const std::string& path);
ReduceLROnPlateau::State parse_plateau(const std::string& text, const std::string& path);
GradScaler::State parse_scaler(const std::string& text, const std::string& path);

}  // namespace lockstep
