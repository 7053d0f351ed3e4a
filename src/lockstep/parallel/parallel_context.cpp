#include "lockstep/parallel/parallel_context.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <stdlib.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/net/environment/slurm_environment.h"
#include "lockstep/net/launcher_environment.h"

namespace lockstep {
namespace {

std::weak_ptr<ParallelContext>& latest_context() {
  static std::weak_ptr<ParallelContext> context;
  return context;
}

void require_started_by(bool started, const std::string& launcher, const std::string& variable) {
  if (started) return;
  throw Error(
      fmt::format("{} did not start this process: {} is not set", launcher, variable),
      "ParallelContext on " + host_name(),
      fmt::format("start the program with {}, or use ParallelContext::from_env, which knows all launchers", launcher));
}

ProcessGroupOptions group_options(const ParallelContextOptions& options) {
  if (!options.host.empty()) ::setenv("MASTER_ADDR", options.host.c_str(), 1);
  if (options.port != 0) ::setenv("MASTER_PORT", std::to_string(options.port).c_str(), 1);
  ProcessGroupOptions result;
  result.backend = options.backend;
  result.timeout = options.timeout;
  return result;
}

}  // namespace

ParallelContext::ParallelContext(const ParallelContextOptions& options) : seed_(options.seed) {
  if (!is_initialized()) {
    init_process_group(group_options(options));
    joined_ = true;
  }
  group_ = default_group();
  const int world_size = group_->world_size();
  if (options.data_parallel_size != 0 && options.data_parallel_size != world_size) {
    if (joined_) destroy_process_group();
    throw Error(fmt::format("data_parallel_size is {}, but the job has {} ranks, all of which split data",
                            options.data_parallel_size, world_size),
                group_->membership().where() + ", ParallelContext",
                fmt::format("set data_parallel_size to {} or leave it out, or start {} ranks", world_size,
                            options.data_parallel_size));
  }
  at::manual_seed(seed_);
}

std::shared_ptr<ParallelContext> ParallelContext::make(const ParallelContextOptions& options) {
  std::shared_ptr<ParallelContext> context(new ParallelContext(options));
  latest_context() = context;
  return context;
}

std::shared_ptr<ParallelContext> ParallelContext::from_env(const ParallelContextOptions& options) {
  return make(options);
}

std::shared_ptr<ParallelContext> ParallelContext::from_torch(const ParallelContextOptions& options) {
  return make(options);
}

std::shared_ptr<ParallelContext> ParallelContext::from_slurm(const ParallelContextOptions& options) {
  require_started_by(slurm_step().has_value(), "srun", "SLURM_STEP_NUM_TASKS");
  return make(options);
}

std::shared_ptr<ParallelContext> ParallelContext::from_mpi(const ParallelContextOptions& options) {
  require_started_by(mpi_job().has_value(), "mpirun", "OMPI_COMM_WORLD_SIZE");
  return make(options);
}

std::shared_ptr<ParallelContext> ParallelContext::get_context() {
  if (auto context = latest_context().lock()) return context;
  throw Error("there is no ParallelContext", "ParallelContext::get_context on " + host_name(),
              "make one first, and keep it: auto context = ParallelContext::from_env()");
}

ParallelContext::~ParallelContext() {
  try {
    destroy();
  } catch (const std::exception&) {
    // The group has failed before, and the calls that waited for it have thrown.
  }
}

void ParallelContext::destroy() {
  models_.clear();
  group_.reset();
  if (std::exchange(joined_, false) && is_initialized()) destroy_process_group();
}

std::shared_ptr<Communicator> ParallelContext::get_group(ParallelMode) const {
  if (group_) return group_;
  throw Error("the ParallelContext was destroyed", "ParallelContext on " + host_name(), "make a new one");
}

std::vector<int> ParallelContext::get_ranks_in_group(ParallelMode mode) const {
  std::vector<int> ranks(static_cast<std::size_t>(get_world_size(mode)));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  return ranks;
}

int ParallelContext::get_next_global_rank(ParallelMode mode) const {
  return (get_local_rank(mode) + 1) % get_world_size(mode);
}

int ParallelContext::get_prev_global_rank(ParallelMode mode) const {
  return (get_local_rank(mode) + get_world_size(mode) - 1) % get_world_size(mode);
}

}  // namespace lockstep
