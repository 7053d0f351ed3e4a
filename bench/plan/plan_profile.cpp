#include "bench/plan/plan_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/measure/worker_program.h"
#include "lockstep/base/processor/topology.h"
#include "tools/frame/companion.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kShortBytes = 512 << 10;
constexpr double kLongBytes = 8 << 20;
constexpr int kSeveralRanks = 6;

struct AllReduceTime {
  double seconds = 0;
  double processor_s = 0;  // of each rank
};

std::vector<AllReduceTime> time_all_reduces(int ranks, const std::string& bytes) {
  const std::string command = run_command(ranks, 1) + shell_quoted(companion_program("lockstep-plan-worker")) +
                              " --measure engine --engine tcp --bytes " + bytes;
  std::vector<AllReduceTime> times;
  const std::vector<Json> results = results_of(command, "tcp on this host", 1);
  for (const Json& row : results.front().at("all_reduce")) {
    times.push_back({row.at("seconds"), row.at("processor_s")});
  }
  return times;
}

}  // namespace

std::vector<std::string> step_arguments(const PlanQuestion& question) {
  std::vector<std::string> arguments{"--model", question.model,
                                     "--batch", std::to_string(question.batch),
                                     "--seq",   std::to_string(question.sequence_length),
                                     "--steps", std::to_string(question.steps)};
  if (question.bf16) arguments.emplace_back("--bf16");
  return arguments;
}

EngineCosts measure_engine_costs() {
  const auto two = time_all_reduces(2, fmt::format("{:.0f},{:.0f}", kShortBytes, kLongBytes));
  const auto several = time_all_reduces(kSeveralRanks, fmt::format("{:.0f}", kShortBytes));
  EngineCosts costs;
  // Two ranks send each other the tensor's length in all, so the slopes are costs per byte sent and byte received.
  costs.byte_cpu_s = std::max(0.0, (two[1].processor_s - two[0].processor_s) / (kLongBytes - kShortBytes));
  // With n ranks, each sends 2 (n - 1) / n of the tensor in 2 (n - 1) messages.
  const double peers = kSeveralRanks - 1;
  const double more_bytes = kShortBytes * (2 * peers / kSeveralRanks - 1);
  const double more_s = several[0].processor_s - two[0].processor_s - more_bytes * costs.byte_cpu_s;
  costs.message_cpu_s = std::max(0.0, more_s / (2 * (peers - 1)));
  costs.operation_s = std::max(0.0, two[0].seconds - kShortBytes * costs.byte_cpu_s);
  return costs;
}

HostProfile host_profile_of(const Json& measured, const EngineCosts& engine) {
  HostProfile profile;
  profile.engine = engine;
  profile.engine.local_byte_s = measured.at("local_byte_s");
  profile.host_step_s = measured.at("host_step_s");
  StepProfile& step = profile.step;
  step.forward_s = measured.at("forward_s");
  step.backward_s = measured.at("backward_s");
  step.update_s = measured.at("update_s");
  for (const Json& gradient : measured.at("gradients")) {
    step.gradients.push_back({gradient.at("bytes"), gradient.at("ready_s")});
  }
  const auto add = [&](Compression compression, const char* name) {
    const Json& hook = measured.at("hooks").at(name);
    profile.hooks[compression] = {hook.at("start_byte_s"), hook.at("finish_byte_s")};
  };
  add(Compression::Half, "bf16");
  add(Compression::Int8, "int8");
  return profile;
}

HostProfile measure_host(const PlanQuestion& question) {
  std::string command = run_command(question.ranks_per_host, question.threads) +
                        shell_quoted(companion_program("lockstep-plan-worker")) + " --measure model";
  for (const std::string& word : step_arguments(question)) command += " " + shell_quoted(word);
  HostProfile profile = host_profile_of(results_of(command, question.model, 1).front(), measure_engine_costs());
  profile.step.cores_are_busy = question.ranks_per_host * question.threads >= available_cores();
  return profile;
}

}  // namespace lockstep
