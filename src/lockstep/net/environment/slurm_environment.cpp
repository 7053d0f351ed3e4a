#include "lockstep/net/environment/slurm_environment.h"

#include <fmt/format.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_step(const std::string& what) {
  throw Error(what, "Slurm's variables on " + host_name(),
              "start the program with srun; or, if a shell inside a step inherited them, unset SLURM_STEP_NUM_TASKS");
}

int step_number(const char* name) {
  const auto value = env_int(name);
  if (!value) refuse_step(fmt::format("{} is not set, but SLURM_STEP_NUM_TASKS is", name));
  if (*value < 0 || *value > INT32_MAX) refuse_step(fmt::format("{} is {}", name, *value));
  return static_cast<int>(*value);
}

std::string step_text(const char* name) {
  const auto value = env_string(name);
  if (!value) refuse_step(fmt::format("{} is not set, but SLURM_STEP_NUM_TASKS is", name));
  return *value;
}

void check_step(const SlurmStep& step) {
  if (step.rank >= step.world_size) {
    refuse_step(fmt::format("SLURM_PROCID is {}, but SLURM_STEP_NUM_TASKS is {}", step.rank, step.world_size));
  }
  if (step.hosts.size() != step.tasks.size()) {
    refuse_step(fmt::format("SLURM_STEP_NODELIST names {} hosts, SLURM_STEP_TASKS_PER_NODE {}", step.hosts.size(),
                            step.tasks.size()));
  }
  int total = 0;
  for (const int count : step.tasks) total += count;
  if (total != step.world_size) {
    refuse_step(
        fmt::format("SLURM_STEP_TASKS_PER_NODE adds up to {}, but SLURM_STEP_NUM_TASKS is {}", total, step.world_size));
  }
  if (static_cast<std::size_t>(step.node_rank) >= step.hosts.size()) {
    refuse_step(fmt::format("SLURM_NODEID is {}, but the step has {} hosts", step.node_rank, step.hosts.size()));
  }
  if (step.local_rank >= step.local_world_size()) {
    refuse_step(
        fmt::format("SLURM_LOCALID is {}, but this host has {} tasks", step.local_rank, step.local_world_size()));
  }
}

}  // namespace

int SlurmStep::port() const { return static_cast<int>(15000 + (job_id + step_id) % 10000); }

std::optional<SlurmStep> slurm_step() {
  if (!env_string("SLURM_STEP_NUM_TASKS")) return std::nullopt;
  SlurmStep step;
  step.rank = step_number("SLURM_PROCID");
  step.world_size = step_number("SLURM_STEP_NUM_TASKS");
  step.local_rank = step_number("SLURM_LOCALID");
  step.node_rank = step_number("SLURM_NODEID");
  step.hosts = expand_host_list(step_text("SLURM_STEP_NODELIST"));
  step.tasks = expand_task_counts(step_text("SLURM_STEP_TASKS_PER_NODE"));
  step.job_id = step_number("SLURM_JOB_ID");
  step.step_id = env_int("SLURM_STEP_ID").value_or(0);
  check_step(step);
  return step;
}

std::optional<int> slurm_tasks_without_step() {
  if (!env_string("SLURM_JOB_ID") || env_string("SLURM_STEP_NUM_TASKS")) return std::nullopt;
  const auto tasks = env_int("SLURM_NTASKS");
  return tasks ? std::optional<int>(static_cast<int>(*tasks)) : std::nullopt;
}

}  // namespace lockstep
