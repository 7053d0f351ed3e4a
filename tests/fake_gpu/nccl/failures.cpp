#include "tests/fake_gpu/nccl/failures.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fake_gpu/runtime/settings.h"

namespace fake_gpu {
namespace {

struct FailureKind {
  const char* name;
  ncclResult_t result;
  const char* text;  // as NCCL words it
};

constexpr FailureKind kFailureKinds[] = {
    {"cuda", ncclUnhandledCudaError, "Cuda failure 2 'out of memory'"},
    {"system", ncclSystemError,
     "Error while creating shared memory segment /dev/shm/nccl-x7Yk2a (size 9637888), error: No space left on device "
     "(28)"},
    {"internal", ncclInternalError, "Message truncated : received 256 bytes instead of 128"},
    {"argument", ncclInvalidArgument, "Invalid config"},
    {"usage", ncclInvalidUsage, "Mismatched collective detected"},
    {"remote", ncclRemoteError, "socketProgress: Connection closed by remote peer 10.0.0.2<41234>"},
};

}  // namespace

Failure next_failure(int rank) {
  static std::atomic<long> calls{0};
  if (rank != number_of("FAKE_NCCL_FAIL_RANK", 0)) return {};
  const long call = ++calls;
  if (call == number_of("FAKE_NCCL_STUCK_AT", 0)) return {ncclSuccess, "", true, true};
  if (call != number_of("FAKE_NCCL_FAIL_AT", 0)) return {};
  const char* kind = std::getenv("FAKE_NCCL_FAIL_KIND");
  const char* how = std::getenv("FAKE_NCCL_FAIL_HOW");
  for (const FailureKind& known : kFailureKinds) {
    if (std::strcmp(known.name, kind == nullptr ? "system" : kind) != 0) continue;
    return {known.result, known.text, how == nullptr || std::strcmp(how, "call") != 0, false};
  }
  std::fprintf(stderr, "[fake GPU] FAKE_NCCL_FAIL_KIND=%s is not a kind of error\n", kind);
  std::abort();
}

}  // namespace fake_gpu
