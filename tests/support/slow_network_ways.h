// The ways to keep ranks together over a slow network, for tests and benchmarks that compare them.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/local_sgd.h"
#include "lockstep/parallel/power_sgd_hook.h"

namespace lockstep {

inline constexpr int kSlowNetworkPeriod = 8;  ///< steps between the meetings of those that meet now and then

/// A hook for gradients, and what is done with the parameters after each step.
struct SlowNetworkWay {
  using AfterStep = std::function<void(const std::vector<at::Tensor>& parameters)>;

  std::string name;
  int period = 1;  ///< steps from one meeting of the ranks to the next
  /// Of the learning rate: an outer momentum lengthens each rank's way.
  double learning_rate_factor = 1;
  std::function<std::unique_ptr<CommunicationHook>()> hook;
  /// To be called before the first step, with the parameters that are equal on all ranks then.
  std::function<AfterStep(std::shared_ptr<Communicator>, const std::vector<at::Tensor>& parameters)> after_step;
};

/// Plain averages first. @param warm_up  steps until those that meet now and then, and PowerSGD, begin
inline std::vector<SlowNetworkWay> slow_network_ways(int warm_up) {
  using Ranks = std::shared_ptr<Communicator>;
  using Parameters = std::vector<at::Tensor>;
  const auto nothing = [](Ranks, const Parameters&) { return [](const Parameters&) {}; };
  const auto power = [warm_up] {
    PowerSGDOptions options;
    options.matrix_approximation_rank = 4;
    options.start_powerSGD_iter = warm_up;
    return power_sgd_hook(options);
  };
  const auto post_local = [warm_up] {
    PostLocalSGDOptions options;
    options.start_localSGD_iter = warm_up;
    options.post_local_gradient_allreduce = false;  // each rank by itself, not each host
    return post_local_sgd_hook(options);
  };
  const auto averager = [warm_up](Ranks group, const Parameters&) {
    auto periodic = std::make_shared<PeriodicModelAverager>(kSlowNetworkPeriod, warm_up, std::move(group));
    return [periodic](const Parameters& parameters) { periodic->average_parameters(parameters); };
  };
  const auto diloco = [](Ranks group, const Parameters& parameters) {
    DiLoCoOptions options;
    options.sync_every = kSlowNetworkPeriod;
    auto outer = std::make_shared<DiLoCo>(parameters, options, std::move(group));
    return [outer](const Parameters&) { outer->step(); };
  };
  // DiLoCo's outer optimizer has a learning rate of 0.7 and a momentum of 0.9: 7 times the way.
  constexpr double kDiLoCoRate = 1.0 / 7;
  return {{"allreduce (fp32)", 1, 1, allreduce_hook, nothing},
          {"fp16", 1, 1, fp16_compress_hook, nothing},
          {"bf16", 1, 1, bf16_compress_hook, nothing},
          {"int8", 1, 1, int8_compress_hook, nothing},
          {"powersgd, rank 4", 1, 1, power, nothing},
          {fmt::format("post-local SGD, every {}", kSlowNetworkPeriod), kSlowNetworkPeriod, 1, post_local, averager},
          {fmt::format("DiLoCo, every {}", kSlowNetworkPeriod), kSlowNetworkPeriod, kDiLoCoRate, noop_hook, diloco}};
}

}  // namespace lockstep
