#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The arguments of `init_process_group`, under PyTorch's names.
struct ProcessGroupOptions {
  std::string backend;  ///< an engine of docs/reference/engines.md: shm, gloo, ...; empty: the fastest that fits
  /// How the ranks find each other:
  ///   "env://"           RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun and `lockstep run` set them
  ///   "tcp://host:port"  rank 0 listens there; "?rank=0&world_size=2" may follow
  ///   "file:///path"     a file that all ranks can see, on one host or on a file system with locks
  std::string init_method = "env://";
  std::optional<int> world_size;  ///< number of ranks. Default: as the environment or the init method gives it
  std::optional<int> rank;        ///< in [0, world_size); default as above
  /// Bound for each collective. Default: LOCKSTEP_TIMEOUT_S seconds, else `default_timeout`. A rank that died, left or
  /// called another operation is noticed at once, so this bound catches a rank that hangs. While a rank works
  /// (`LongWork`), the others wait longer.
  std::optional<std::chrono::milliseconds> timeout;
  /// Bound for meeting and connecting. Default: LOCKSTEP_JOIN_TIMEOUT_S seconds, else `timeout` if that is given (here
  /// or by its variable), as in PyTorch, else 10 minutes.
  std::optional<std::chrono::milliseconds> join_timeout;
};

/// How long collectives of this engine wait, as in PyTorch: 10 minutes for NCCL, 30 for all others.
std::chrono::milliseconds default_timeout(const std::string& backend);

/// Joins the job's group, which becomes the default group of this process. Collective: returns when all ranks have
/// joined. Logs (at level info) that it waits for them and, on rank 0, which engine was chosen.
/// @throws Error  if a default group already exists; naming the variable or argument that is missing or wrong, the
/// address that is busy or refuses, or two processes that claim one rank or differ in world_size; if this build does
/// not have the engine, or the engine cannot serve these ranks
/// @throws TimeoutError  naming the ranks that did not arrive within `join_timeout`
void init_process_group(const ProcessGroupOptions& options = {});
void init_process_group(const std::string& backend, const std::string& init_method = "env://",
                        std::optional<int> world_size = {}, std::optional<int> rank = {},
                        std::optional<std::chrono::milliseconds> timeout = {});

bool is_initialized();
/// The group of init_process_group. @throws Error  if there is none
std::shared_ptr<Communicator> default_group();
int get_rank();        ///< in the default group. @throws Error  if there is none
int get_world_size();  ///< of the default group. @throws Error  if there is none
int get_local_rank();  ///< among the ranks of this host. @throws Error  if there is none
void barrier();        ///< of the default group. @throws Error  as Communicator::barrier

/// A group of some ranks of the default group, in the order given. Collective over the default group: ranks that are
/// not in `ranks` call it too, and get null.
/// @throws Error  if a rank does not exist or is given twice
std::shared_ptr<Communicator> new_group(const std::vector<int>& ranks);

/// Leaves the default group in order. Waits, for at most 5 s, until the other ranks have left too: rank 0 may serve the
/// store, and must not remove it while other ranks still use it. Objects that hold the group keep it working.
void destroy_process_group();

}  // namespace lockstep
