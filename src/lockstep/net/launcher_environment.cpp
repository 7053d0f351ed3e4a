#include "lockstep/net/launcher_environment.h"

#include <stdlib.h>

#include <utility>

#include "lockstep/base/environment.h"

namespace lockstep {

void adopt_launcher_environment() {
  if (env_string("RANK") || env_string("WORLD_SIZE")) return;
  if (!env_int("OMPI_COMM_WORLD_RANK") || !env_int("OMPI_COMM_WORLD_SIZE")) return;
  const std::pair<const char*, const char*> names[] = {{"RANK", "OMPI_COMM_WORLD_RANK"},
                                                       {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
                                                       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                                       {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}};
  for (const auto& [ours, theirs] : names) {
    if (const auto value = env_int(theirs)) ::setenv(ours, std::to_string(*value).c_str(), 0);
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
