#include "lockstep/checkpoint/schedule_state.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {
namespace {

// Calls `read` with the object in `text`, whose "type" must be `type`.
template <typename Read>
auto read_typed(const std::string& text, const std::string& path, const char* type, const Read& read) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("type") == type) return read(json);
  } catch (const nlohmann::json::exception& error) {
    throw Error(path + " cannot be read: " + error.what(), path, "resume from another checkpoint");
  }
  throw Error(path + " is not the state of a " + type, path, "resume with the schedule of the saved run");
}

}  // namespace

std::string schedule_json(const LambdaLR::State& state) {
  const nlohmann::json json{{"type", "LambdaLR"}, {"last_step", state.last_step}, {"base_lrs", state.initial_lrs}};
  return json.dump(2) + "\n";
}

std::string schedule_json(const ReduceLROnPlateau::State& state) {
  const nlohmann::json json{{"type", "ReduceLROnPlateau"},
                            {"best", json_of_number(state.best)},
                            {"num_bad_epochs", state.num_bad_epochs},
                            {"cooldown_counter", state.cooldown_counter}};
  return json.dump(2) + "\n";
}

std::string scaler_json(const GradScaler::State& state) {
  const nlohmann::json json{{"type", "GradScaler"}, {"scale", state.scale}, {"growth_tracker", state.growth_tracker}};
  return json.dump(2) + "\n";
}

LambdaLR::State parse_lambda_lr(const std::string& text, const std::string& path) {
  return read_typed(text, path, "LambdaLR", [&](const nlohmann::json& json) {
    return LambdaLR::State{whole_number_at<std::int64_t>(json, "last_step", path),
                           json.at("base_lrs").get<std::vector<double>>()};
  });
}

ReduceLROnPlateau::State parse_plateau(const std::string& text, const std::string& path) {
  return read_typed(text, path, "ReduceLROnPlateau", [&](const nlohmann::json& json) {
    ReduceLROnPlateau::State state;
    const auto best = number_in(json.at("best"));
    if (!best) throw Error(path + ": \"best\" is not a number", path, "resume from another checkpoint");
    state.best = *best;
    state.num_bad_epochs = whole_number_at<int>(json, "num_bad_epochs", path);
    state.cooldown_counter = whole_number_at<int>(json, "cooldown_counter", path);
    return state;
  });
}

GradScaler::State parse_scaler(const std::string& text, const std::string& path) {
  return read_typed(text, path, "GradScaler", [&](const nlohmann::json& json) {
    return GradScaler::State{json.at("scale").get<double>(), whole_number_at<int>(json, "growth_tracker", path)};
  });
}

}  // namespace lockstep
