#pragma once

#include <torch/nn/module.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {

/// The groups that a rank belongs to, under OSLO's names. Lockstep splits data alone, so both hold all ranks.
enum class ParallelMode { Global, Data };

struct ParallelContextOptions {
  int data_parallel_size = 0;  ///< replicas; must be the number of ranks. 0: that
  std::string backend;         ///< as of init_process_group; empty: the fastest that fits
  std::string host;            ///< where rank 0 is to be met; empty: as the launcher says
  int port = 0;                ///< 0: as the launcher says
  std::uint64_t seed = 42;     ///< every rank's random numbers start from it, so that models made of them are equal
  std::optional<std::chrono::milliseconds> timeout;  ///< as of init_process_group
};

/// Who this rank is among all, as OSLO's ParallelContext tells it:
///
///     auto context = lockstep::ParallelContext::from_env();
///     lockstep::ready(model, context);
///     int rank = context->get_local_rank(lockstep::ParallelMode::Data);
///
/// Collective: each `from_…` returns when all ranks have come. It joins the default group, or takes it where the
/// program has joined it already. One thread at a time.
class ParallelContext {
 public:
  /// Of whatever started this process: torchrun or `lockstep run`, else mpirun, else srun.
  /// @throws Error  as init_process_group does, and where data_parallel_size is not the number of ranks
  static std::shared_ptr<ParallelContext> from_env(const ParallelContextOptions& options = {});
  /// The same under OSLO's name.
  static std::shared_ptr<ParallelContext> from_torch(const ParallelContextOptions& options = {});
  /// Of Slurm's srun. @throws Error  as above, and where no srun started this process
  static std::shared_ptr<ParallelContext> from_slurm(const ParallelContextOptions& options = {});
  /// Of Open MPI's mpirun. @throws Error  as above, and where no mpirun started this process
  static std::shared_ptr<ParallelContext> from_mpi(const ParallelContextOptions& options = {});
  /// The latest that still lives. @throws Error  if there is none
  static std::shared_ptr<ParallelContext> get_context();

  ~ParallelContext();
  ParallelContext(const ParallelContext&) = delete;
  ParallelContext& operator=(const ParallelContext&) = delete;

  int get_world_size(ParallelMode mode) const { return get_group(mode)->world_size(); }
  int get_local_rank(ParallelMode mode) const { return get_group(mode)->rank(); }  ///< in the mode's group
  int get_global_rank() const { return get_local_rank(ParallelMode::Global); }
  std::shared_ptr<Communicator> get_group(ParallelMode mode) const;
  std::vector<int> get_ranks_in_group(ParallelMode mode) const;  ///< global ranks
  int get_next_global_rank(ParallelMode mode) const;             ///< the last one's next is the first
  int get_prev_global_rank(ParallelMode mode) const;
  bool is_first_rank(ParallelMode mode) const { return get_local_rank(mode) == 0; }
  bool is_last_rank(ParallelMode mode) const { return get_local_rank(mode) == get_world_size(mode) - 1; }
  std::uint64_t seed() const { return seed_; }

  /// Holds what synchronises a model, until `destroy`; part of `ready`.
  void keep(std::shared_ptr<DistributedDataParallelBase> model) { models_.push_back(std::move(model)); }

  /// Ends the synchronisation of models that `ready` took, and leaves the group where this object joined it.
  /// Collective.
  void destroy();

 private:
  explicit ParallelContext(const ParallelContextOptions& options);
  static std::shared_ptr<ParallelContext> make(const ParallelContextOptions& options);

  std::shared_ptr<Communicator> group_;
  bool joined_ = false;
  std::uint64_t seed_;
  std::vector<std::shared_ptr<DistributedDataParallelBase>> models_;
};

/// Makes `model` (a holder, a shared_ptr to a module, or a torch::jit::Module) a replica among those of all ranks:
/// equal at once, and from now on each backward leaves the average of all ranks' gradients in its parameters. The plain
/// model is used and saved, under its own names; `context` holds what belongs to it. Buffers become rank 0's when
/// backward ends. Collective.
///
/// Where a backward runs inside another (activation checkpointing), use DistributedDataParallel, whose forward shows
/// where the outer one begins.
/// @throws Error  as DistributedDataParallel does
template <typename ModuleType>
void ready(ModuleType& model, const std::shared_ptr<ParallelContext>& context,
           DistributedDataParallelOptions options = {}) {
  options.process_group = context->get_group(ParallelMode::Data);
  auto ddp = std::make_shared<DistributedDataParallel<ModuleType>>(model, std::move(options));
  ddp->follow_backward();
  context->keep(std::move(ddp));
}

}  // namespace lockstep
