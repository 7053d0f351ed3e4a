#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// How many ranks share this host, according to the launcher that started this process: LOCAL_WORLD_SIZE (torchrun,
/// `lockstep run`), OMPI_COMM_WORLD_LOCAL_SIZE (Open MPI), MPI_LOCALNRANKS (MPICH, Intel MPI), or Slurm's variables for
/// a task of srun. 0 if no variable is set.
int ranks_by_launcher();
/// Like `ranks_by_launcher`, but 1 if no variable is set.
int ranks_on_host();

/// The numbers from which the threads of this process are computed, in physical cores; Slurm's may be hardware threads.
/// A struct of plain numbers, so that tests can choose them.
struct CoresInReach {
  int own = 1;       ///< cores of this process: its affinity mask, limited by the quotas of its control groups
  int launcher = 1;  ///< `own` of the parent process, which shows whether this process was bound to a part
  int allotted = 0;  ///< cores that the batch system gave the job on this host; 0: not known
  int per_rank = 0;  ///< cores that the batch system gave each rank (SLURM_CPUS_PER_TASK); 0: not known
};

/// Threads that each of `ranks` ranks on one host should compute with, so that together they use each core once. A rank
/// that its launcher bound to its own cores uses these.
int threads_for(const CoresInReach& cores, int ranks);

/// Threads that this process should compute with: its share of the host's cores. It is set even for a process that is
/// alone: LibTorch takes what it believes to be the physical cores (seen: one of two in a virtual machine), OpenBLAS
/// takes all, and neither respects a container's quota.
int threads_of_process();
/// Threads for a rank that knows the others of its host: its cores, of which it takes its part of those that others may
/// use too; at most its part of the quota, which all of them share.
/// @param own  hardware threads that this rank may run on
/// @param others  for each other rank of the host, those that it may run on
/// @param root  as in base/processor/core_count.h
int threads_beside(const std::vector<int>& own, const std::vector<std::vector<int>>& others,
                   const std::string& root = "");

/// Cores that a launcher in this process may share among the ranks that it starts: `compute_cores`, or the number that
/// Lockstep gave this process (`inherited_threads`) if that is less.
int cores_to_share();

}  // namespace lockstep
