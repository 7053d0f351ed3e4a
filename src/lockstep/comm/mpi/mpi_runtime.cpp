#include "lockstep/comm/mpi/mpi_runtime.h"

#include <stdlib.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPoll{1};
/// How long the end of a process waits for the other ranks' ends.
constexpr milliseconds kLeaving{5000};
/// How long cancelled messages may take to end, before MPI as a whole is given up.
constexpr milliseconds kTakingBack{500};

const char* const kStartFix =
    "start the ranks with Open MPI: mpirun -np RANKS PROGRAM; or choose another engine, which `lockstep run` can start";

std::string variable(const char* name) {
  const char* const text = ::getenv(name);
  return text == nullptr ? "" : text;
}

// Every starter that today's MPI libraries support sets one of these.
bool started_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (!variable(name).empty()) return true;
  }
  return false;
}

// Polls a request until it ends; false at the deadline.
bool wait_for(MPI_Request& request, Deadline deadline) {
  for (;;) {
    int done = 0;
    require_success(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return true;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(kPoll);
  }
}

bool has_ended(MPI_Request& request) {
  int done = 0;
  return MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
}

}  // namespace

void require_success(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

MpiRuntime& MpiRuntime::get(Deadline deadline) {
  static MpiRuntime* const runtime = new MpiRuntime(deadline);  // never destroyed: threads may still wait at exit
  runtime->require_usable();
  return *runtime;
}

MpiRuntime::MpiRuntime(Deadline deadline) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int level = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    if (!started_by_mpi()) throw Error("this process was not started by mpirun", "engine mpi", kStartFix);
    require_success(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  } else {
    MPI_Query_thread(&level);
  }
  if (level < MPI_THREAD_SERIALIZED) {
    throw Error("MPI takes calls from one thread only (it offers less than MPI_THREAD_SERIALIZED)", "engine mpi",
                initialized == 0 ? "install an MPI that was built with threads"
                                 : "start it with MPI_Init_thread and MPI_THREAD_MULTIPLE, or leave that to Lockstep");
  }
  // A separate communicator, so that the program's messages and Lockstep's never match. Errors are returned; by default
  // MPI ends the process.
  MPI_Request request = MPI_REQUEST_NULL;
  require_success(MPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &request), "MPI_Comm_idup");
  if (!wait_for(request, deadline)) {
    usable_ = false;
    throw TimeoutError("MPI did not start in time: not all ranks of MPI_COMM_WORLD have joined this group",
                       "engine mpi", "call init_process_group on every rank that mpirun started");
  }
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(communicator_, &rank_);
  void* bound = nullptr;
  int known = 0;
  MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &bound, &known);
  const int largest = known != 0 ? *static_cast<int*>(bound) : 32767;
  for (tag_bits_ = 1; tag_bits_ < 31 && (largest >> tag_bits_) > 0;) ++tag_bits_;
  if (((largest + 1LL) & largest) != 0) --tag_bits_;  // all values of that many bits must be valid tags
  job_ = variable("PMIX_NAMESPACE");
  if (initialized == 0) ::on_exit(&MpiRuntime::at_exit, this);
}

void MpiRuntime::broadcast(std::string& text, Deadline deadline) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::uint64_t size = text.size();
  const auto from_rank_0 = [&](void* data, std::size_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    require_success(MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, communicator_, &request), "MPI_Ibcast");
    if (wait_for(request, deadline)) return;
    usable_ = false;
    throw TimeoutError("rank 0 did not send its address over MPI", "engine mpi",
                       "call init_process_group on every rank that mpirun started");
  };
  from_rank_0(&size, sizeof(size));
  text.resize(static_cast<std::size_t>(size));
  from_rank_0(text.data(), text.size());
}

bool MpiRuntime::take_back(const std::vector<MPI_Request*>& receives, const std::vector<MPI_Request*>& sends) {
  const Deadline deadline = Deadline::after(kTakingBack);
  bool cancelled = false;
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!usable_) return false;
      int left = 0;
      for (MPI_Request* request : receives) {
        if (*request == MPI_REQUEST_NULL) continue;
        if (!cancelled) MPI_Cancel(request);
        left += has_ended(*request) ? 0 : 1;
      }
      for (MPI_Request* request : sends) left += *request == MPI_REQUEST_NULL || has_ended(*request) ? 0 : 1;
      cancelled = true;
      if (left == 0) return true;
      if (deadline.passed()) {
        usable_ = false;
        return false;
      }
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void MpiRuntime::require_usable() const {
  if (usable_) return;
  throw Error("MPI cannot be used any more in this process: a group over it failed in the middle of a message",
              "engine mpi", "start the job again, or build the new group over another engine");
}

// If nothing failed, the ranks meet once more, and MPI ends in order. After a failure, MPI_Finalize would wait for
// ranks that never arrive.
void MpiRuntime::at_exit(int status, void* self) {
  MpiRuntime& runtime = *static_cast<MpiRuntime*>(self);
  if (!runtime.home_.is_here()) return;  // a forked child would take its parent's place
  const std::lock_guard<std::mutex> lock(runtime.mutex);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (status != 0 || !runtime.usable_ || finalized != 0) return;
  runtime.usable_ = false;
  try {
    MPI_Request request = MPI_REQUEST_NULL;
    require_success(MPI_Ibarrier(runtime.communicator_, &request), "MPI_Ibarrier");
    if (!wait_for(request, Deadline::after(kLeaving))) return;
  } catch (const std::exception&) {
    return;
  }
  MPI_Comm_free(&runtime.communicator_);
  MPI_Finalize();
}

}  // namespace lockstep
