#pragma once

#include <mpi.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/home_process.h"

namespace lockstep {

/// MPI in this process: started once, ended with the process. Includes MPI, so only the module's files may include this
/// header.
///
/// Every call of MPI is made under `mutex`, and none of them blocks. So MPI_THREAD_SERIALIZED is sufficient, however
/// many threads wait, and a rank that is gone never blocks another one inside MPI.
class MpiRuntime {
 public:
  /// @throws Error  if mpirun did not start this process, or MPI offers too little
  /// @throws TimeoutError  if the other ranks do not start MPI too
  static MpiRuntime& get(Deadline deadline);

  std::mutex mutex;
  MPI_Comm communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int tag_bits() const { return tag_bits_; }
  const std::string& job() const { return job_; }  ///< equal on ranks of one MPI_COMM_WORLD

  /// Sets `text` to the `text` of rank 0. Collective over MPI's world.
  void broadcast(std::string& text, Deadline deadline);

  /// Whether MPI may be called. False after MPI's end, and once a message could not be cancelled: MPI would then write
  /// into freed memory at the next call.
  bool usable() const { return usable_; }
  /// Cancels receives and lets sends end, for memory that its owner needs back. @return  false if some did not end: MPI
  /// as a whole is then given up
  bool take_back(const std::vector<MPI_Request*>& receives, const std::vector<MPI_Request*>& sends);
  /// @throws Error  if MPI is not usable
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

/// Throws the error that `code` means, unless it is MPI_SUCCESS. @throws std::runtime_error
void require_success(int code, const char* call);

}  // namespace lockstep
