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

/// The groups that a rank belongs to, under OSLO's names. Lockstep divides only data, so both groups contain all ranks.
enum class ParallelMode { Global, Data };

struct ParallelContextOptions {
  int data_parallel_size = 0;  ///< number of replicas, which must be the number of ranks; 0: that number
  std::string backend;         ///< as in init_process_group; empty: the fastest that fits
  std::string host;            ///< address of rank 0; empty: from the launcher
  int port = 0;                ///< port of rank 0; 0: from the launcher
  std::uint64_t seed = 42;     ///< seeds the random numbers of every rank, so that models made from them are equal
  std::optional<std::chrono::milliseconds> timeout;  ///< as in init_process_group
};

/// This rank's place among all ranks, as OSLO's ParallelContext reports it:
///
///     auto context = lockstep::ParallelContext::from_env();
///     lockstep::ready(model, context);
///     int rank = context->get_local_rank(lockstep::ParallelMode::Data);
///
/// Collective: each `from_…` returns when all ranks have called it. It joins the default group, or uses it if the
/// program has joined it already. One thread at a time.
class ParallelContext {
 public:
  /// Reads the environment of whatever started this process: torchrun or `lockstep run`, else mpirun, else srun.
  /// @throws Error  as init_process_group does, and if data_parallel_size is not the number of ranks
  static std::shared_ptr<ParallelContext> from_env(const ParallelContextOptions& options = {});
  /// from_env under OSLO's name.
  static std::shared_ptr<ParallelContext> from_torch(const ParallelContextOptions& options = {});
  /// Reads the environment of Slurm's srun. @throws Error  as from_env, and if no srun started this process
  static std::shared_ptr<ParallelContext> from_slurm(const ParallelContextOptions& options = {});
  /// Reads the environment of Open MPI's mpirun. @throws Error  as from_env, and if no mpirun started this process
  static std::shared_ptr<ParallelContext> from_mpi(const ParallelContextOptions& options = {});
  /// The most recent context that still exists. @throws Error  if there is no context
  static std::shared_ptr<ParallelContext> get_context();

  ~ParallelContext();
  ParallelContext(const ParallelContext&) = delete;
  ParallelContext& operator=(const ParallelContext&) = delete;

  int get_world_size(ParallelMode mode) const { return get_group(mode)->world_size(); }
  int get_local_rank(ParallelMode mode) const { return get_group(mode)->rank(); }  ///< rank in the mode's group
  int get_global_rank() const { return get_local_rank(ParallelMode::Global); }
  std::shared_ptr<Communicator> get_group(ParallelMode mode) const;
  std::vector<int> get_ranks_in_group(ParallelMode mode) const;  ///< global ranks
  int get_next_global_rank(ParallelMode mode) const;             ///< the rank after the last one is the first
  int get_prev_global_rank(ParallelMode mode) const;
  bool is_first_rank(ParallelMode mode) const { return get_local_rank(mode) == 0; }
  bool is_last_rank(ParallelMode mode) const { return get_local_rank(mode) == get_world_size(mode) - 1; }
  std::uint64_t seed() const { return seed_; }

  /// Keeps the object that synchronises a model until `destroy`; part of `ready`.
  void keep(std::shared_ptr<DistributedDataParallelBase> model) { models_.push_back(std::move(model)); }

  /// Ends the synchronisation of the models given to `ready`, and leaves the group if this object joined it.
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

/// Makes `model` (a holder, a shared_ptr to a module, or a torch::jit::Module) one of the replicas on all ranks. The
/// replicas are equal at once, and from now on each backward leaves the average of all ranks' gradients in the
/// parameters. Programs use and save the plain model, under its own names; `context` holds everything that synchronises
/// it. Buffers become rank 0's when backward ends. Collective.
///
/// If a backward runs inside another (activation checkpointing), use DistributedDataParallel, whose forward shows where
/// the outer backward begins.
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
