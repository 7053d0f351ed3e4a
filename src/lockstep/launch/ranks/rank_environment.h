#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A rank's place in the job, and what it needs to join: the content of its environment.
struct RankPlace {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int local_world_size = 1;
  int node_rank = 0;
  int nodes = 1;
  std::string role = "default";
  std::string master_addr;
  std::uint16_t master_port = 0;  ///< for programs with their own store: rank 0 may listen there
  std::int64_t generation = 0;    ///< number of earlier starts of the ranks, whatever the reason
  int restart_count = 0;          ///< number of restarts after failures
  int max_restarts = 0;
  std::string run_id;
  int member = -1;            ///< number of a process that takes a lost rank's place; -1: it is a rank from the start
  int memory = -1;            ///< descriptor of the host's memory for the job, see net/worlds/job_memory.h; -1: none
  std::string survival_file;  ///< path of a file that the rank makes if it survives the loss of others
  std::string error_file;     ///< path at which the rank may write a JSON object about its failure
  std::string store;          ///< address of the job's store
  std::string store_file;     ///< path of a file that says where it is once it has moved; empty: it does not move
  std::string secret;         ///< empty: no secret
  std::string collective_timeout_s;  ///< empty: not given
  std::string trace_file;            ///< empty: no trace
  std::string trace_steps;           ///< empty: not given
  std::string job_mark;              ///< value of `kJobMarkVariable` (base/job_mark.h)
};

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Every variable that torchrun sets, and Lockstep's own.
Variables rank_variables(const RankPlace& place);

/// `base` ("NAME=value" texts, such as environ) with `variables` added; they replace those of equal names.
std::vector<std::string> merged_environment(const std::vector<std::string>& base, const Variables& variables);

/// The environment of this process.
std::vector<std::string> own_environment();

/// `command` with each "${local_rank}" replaced, as torchrun does.
std::vector<std::string> with_local_rank(std::vector<std::string> command, int local_rank);

}  // namespace lockstep
