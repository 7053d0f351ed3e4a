#pragma once

namespace lockstep {

/// How many ranks share this host, as the launcher that started this process says: LOCAL_WORLD_SIZE (torchrun,
/// `lockstep run`), OMPI_COMM_WORLD_LOCAL_SIZE (Open MPI), MPI_LOCALNRANKS (MPICH, Intel MPI), or Slurm's variables for
/// a task of srun. 1 where none says so.
int ranks_on_host();

/// What the threads of this process may be computed from, in physical cores; Slurm may count hardware threads. A struct
/// of plain numbers, so that a test can make one up.
struct CoresInReach {
  int own = 1;       ///< this process may use at once: its affinity mask, cut by the quotas of its control groups
  int launcher = 1;  ///< the same of the process that started it, which shows whether this one was bound to a part
  int allotted = 0;  ///< the batch system gave the job on this host; 0: no word
  int per_rank = 0;  ///< the batch system gave each rank (SLURM_CPUS_PER_TASK); 0: no word
};

/// Threads that `ranks` ranks of one host should compute with each, so that they fill the cores once. A rank that its
/// launcher bound to cores of its own takes these.
int threads_for(const CoresInReach& cores, int ranks);

/// Threads that this process should compute with: its share of the host's cores. Said even to a process that is alone:
/// LibTorch takes what it believes to be the physical cores (seen: one of two in a virtual machine), OpenBLAS all, and
/// neither sees a container's quota.
int threads_of_process();

/// Cores that a launcher in this process may share among the ranks that it starts: `compute_cores`, or what Lockstep
/// gave this process (`inherited_threads`) if that is less.
int cores_to_share();

}  // namespace lockstep
