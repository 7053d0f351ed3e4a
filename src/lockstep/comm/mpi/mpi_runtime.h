#pragma once

#include <mpi.h>

#include <atomic>
#include <mutex>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/home_process.h"

namespace lockstep {

/// MPI in this process: started once, ended when the process does. Sees MPI, so only the module's files may include it.
///
/// Every call of MPI is made under `mutex`, and none of them blocks: so MPI_THREAD_SERIALIZED is all that is needed,
/// whatever the number of threads that wait, and a rank that is gone never holds up another one inside MPI.
class MpiRuntime {
 public:
  /// @throws Error         where this process was not started by mpirun, or MPI offers too little
  /// @throws TimeoutError  where the other ranks do not start MPI, too
  static MpiRuntime& get(Deadline deadline);

  std::mutex mutex;
  MPI_Comm communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int tag_bits() const { return tag_bits_; }
  const std::string& job() const { return job_; }  ///< equal on ranks of one MPI_COMM_WORLD

  /// Makes `text` that of rank 0. Collective over MPI's world.
  void broadcast(std::string& text, Deadline deadline);

  /// Whether MPI may be called. No more once a message could not be taken back: MPI would write into memory that was
  /// given up as soon as anybody let it. And not after its end.
  bool usable() const { return usable_; }
  void give_up() { usable_ = false; }
  /// @throws Error  where not usable
  void require_usable() const;

 private:
  explicit MpiRuntime(Deadline deadline);
  static void at_exit(int status, void* self);

  const HomeProcess home_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int tag_bits_ = 15;
  std::string job_;
  std::atomic<bool> usable_{true};
};

/// Throws what `code` means, unless it is MPI_SUCCESS. @throws std::runtime_error
void require_success(int code, const char* call);

}  // namespace lockstep
