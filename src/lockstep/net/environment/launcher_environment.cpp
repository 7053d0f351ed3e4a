#include "lockstep/net/launcher_environment.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/net/environment/slurm_environment.h"

namespace lockstep {

namespace {

void adopt(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 0); }

// If mpirun runs inside a Slurm job, its ranks inherit the variables of the step that runs mpirun's own daemons, so
// MPI's variables take precedence over Slurm's.
bool adopt_mpirun() {
  if (!env_int("OMPI_COMM_WORLD_RANK") || !env_int("OMPI_COMM_WORLD_SIZE")) return false;
  const std::pair<const char*, const char*> names[] = {{"RANK", "OMPI_COMM_WORLD_RANK"},
                                                       {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
                                                       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                                       {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}};
  for (const auto& [ours, theirs] : names) {
    if (const auto value = env_int(theirs)) adopt(ours, std::to_string(*value));
  }
  return true;
}

bool adopt_srun() {
  const auto step = slurm_step();
  if (!step) return false;
  adopt("RANK", std::to_string(step->rank));
  adopt("WORLD_SIZE", std::to_string(step->world_size));
  adopt("LOCAL_RANK", std::to_string(step->local_rank));
  adopt("LOCAL_WORLD_SIZE", std::to_string(step->local_world_size()));
  adopt("GROUP_RANK", std::to_string(step->node_rank));
  adopt("MASTER_ADDR", step->hosts.front());
  adopt("MASTER_PORT", std::to_string(step->port()));
  // Names the meeting point of this step only, even after Slurm has restarted the job.
  adopt("TORCHELASTIC_RUN_ID",
        fmt::format("slurm-{}.{}-{}", step->job_id, step->step_id, env_string("SLURM_RESTART_COUNT").value_or("0")));
  return true;
}

}  // namespace

void adopt_launcher_environment() {
  if (env_string("RANK") || env_string("WORLD_SIZE") || adopt_mpirun() || adopt_srun()) return;
  const auto tasks = slurm_tasks_without_step();
  if (tasks.value_or(1) > 1) {
    log_warning("the Slurm job asked for {} tasks, but this is a single process: the program was started without srun",
                *tasks);
  }
}

std::optional<std::string> mpi_job() {
  if (!env_string("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  std::string text;
  // The job's name is a small number; the address of its server makes it unique on this host.
  for (const char* name : {"PMIX_NAMESPACE", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                           "PMIX_SERVER_URI2", "OMPI_MCA_orte_hnp_uri"}) {
    text += env_string(name).value_or("") + ' ';
  }
  return text;
}

}  // namespace lockstep
