#include "lockstep/train/accelerator/scheduler_state.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/optim/lr_scheduler.h"

namespace lockstep {
namespace {

constexpr const char* kStepCount = "step_count";

// The state of LibTorch's schedulers, which only derived classes can access.
struct StepCountOf : torch::optim::LRScheduler {
  static auto member() { return &StepCountOf::step_count_; }
};

}  // namespace

std::string scheduler_state(const torch::optim::LRScheduler& scheduler) {
  if (const auto* lambda = dynamic_cast<const LambdaLR*>(&scheduler)) return schedule_json(lambda->state());
  return nlohmann::json{{"type", "LRScheduler"}, {kStepCount, scheduler.*StepCountOf::member()}}.dump(2) + "\n";
}

void load_scheduler_state(torch::optim::LRScheduler& scheduler, const std::string& text, const std::string& path) {
  if (auto* lambda = dynamic_cast<LambdaLR*>(&scheduler)) {
    lambda->load_state(parse_lambda_lr(text, path));
    return;
  }
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("type", "") != "LRScheduler" ||
      !json.value(kStepCount, nlohmann::json()).is_number_unsigned()) {
    throw Error(path + " is not the state of such a scheduler", path, "resume with the schedulers of the saved run");
  }
  scheduler.*StepCountOf::member() = json.at(kStepCount).get<unsigned>();
}

}  // namespace lockstep
