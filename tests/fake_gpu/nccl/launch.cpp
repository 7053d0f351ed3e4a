// Groups and launches. Rules: a group of calls is one kernel for each communicator, "as if it was a single operation",
// and its calls start when ncclGroupEnd is called (NCCL User Guide, "Group Calls"). With blocking=0 a call returns
// ncclInProgress, and a thread of NCCL does the rest ("Fault Tolerance", ncclConfig_t). Kernels of one communicator run
// in the order of the calls, on whatever streams.
#include "tests/fake_gpu/nccl/launch.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/fake_gpu/nccl/communicator.h"
#include "tests/fake_gpu/nccl/failures.h"
#include "tests/fake_gpu/runtime/context.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/event.h"
#include "tests/fake_gpu/runtime/fake_device.h"
#include "tests/fake_gpu/runtime/settings.h"

namespace fake_gpu {
namespace {

// What one communicator has to do in a group.
struct CallBatch {
  ncclComm* communicator;
  std::vector<cudaStream_t> streams;
  std::vector<KernelBody> collectives, messages;
  Failure failure;

  void run() const {
    for (const KernelBody& body : collectives) {
      if (!body()) return;
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < messages.size(); ++i) threads.emplace_back([this, i] { messages[i](); });
    if (!messages.empty()) messages[0]();
    for (std::thread& thread : threads) thread.join();
  }
};

struct OpenGroup {
  int depth = 0;
  std::vector<CallBatch> batches;
  std::vector<ncclComm*> joins, aborts;
};
thread_local OpenGroup group;

// The kernel: waits for its turn among the communicator's kernels, and for what the other streams have got before.
void put_on_stream(const std::shared_ptr<CallBatch>& batch, std::uint64_t turn) {
  ncclComm* const communicator = batch->communicator;
  std::vector<std::shared_ptr<Mark>> before;
  for (std::size_t i = 1; i < batch->streams.size(); ++i) {
    before.push_back(std::make_shared<Mark>());
    run_on_stream(batch->streams[i], [mark = before.back()] { mark->set(); });
  }
  const auto after = std::make_shared<Mark>();
  ++counters().nccl_launches;
  run_on_stream(batch->streams[0], [=] {
    for (const auto& mark : before) mark->wait();
    if (communicator->until([&] { return communicator->completed.load() == turn; })) batch->run();
    communicator->completed = turn + 1;
    after->set();
    --communicator->running;
  });
  for (std::size_t i = 1; i < batch->streams.size(); ++i) run_on_stream(batch->streams[i], [after] { after->wait(); });
}

// Begins in another thread if the communicator does not block.
ncclResult_t begin(ncclComm* communicator, const std::function<ncclResult_t()>& body) {
  ++communicator->running;
  const auto run = [=] {
    const ncclResult_t result = body();
    int in_progress = ncclInProgress;
    communicator->state.compare_exchange_strong(in_progress, result);
    --communicator->running;
    return result;
  };
  communicator->state = ncclInProgress;
  if (communicator->blocking) {
    const int before = current_device();
    cudaSetDevice(communicator->device);  // whose default stream is meant, if it is that
    const ncclResult_t result = run();
    cudaSetDevice(before);
    return result;
  }
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(number_of("FAKE_NCCL_LAUNCH_US", 30)));
    cudaSetDevice(communicator->device);
    run();
  }).detach();
  return ncclInProgress;
}

ncclResult_t launch(CallBatch&& made) {
  const auto batch = std::make_shared<CallBatch>(std::move(made));
  ncclComm* const communicator = batch->communicator;
  if (batch->failure.result != ncclSuccess) {
    return begin(communicator, [=] {
      set_last_error(batch->failure.text);
      return batch->failure.result;
    });
  }
  const std::uint64_t turn = communicator->launched++;
  ++communicator->running;  // until the kernel ends
  return begin(communicator, [=] {
    put_on_stream(batch, turn);
    return ncclSuccess;
  });
}

CallBatch& batch_of(ncclComm* communicator) {
  for (CallBatch& batch : group.batches) {
    if (batch.communicator == communicator) return batch;
  }
  group.batches.push_back({communicator, {}, {}, {}, {}});
  return group.batches.back();
}

ncclResult_t worse(ncclResult_t first, ncclResult_t second) {
  if (first == ncclSuccess || first == ncclInProgress) return second == ncclSuccess ? first : second;
  return first;
}

ncclResult_t end_group() {
  OpenGroup ended;
  std::swap(ended, group);
  ncclResult_t result = ncclSuccess;
  // Communicators of several devices in one process connect with each other: each in a thread of its own.
  std::vector<std::thread> threads;
  std::vector<ncclResult_t> joined(ended.joins.size(), ncclSuccess);
  for (std::size_t i = 0; i < ended.joins.size(); ++i) {
    threads.emplace_back([&, i] { joined[i] = begin(ended.joins[i], [=, c = ended.joins[i]] { return join(c); }); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const ncclResult_t each : joined) result = worse(result, each);
  for (CallBatch& batch : ended.batches) result = worse(result, launch(std::move(batch)));
  for (ncclComm* communicator : ended.aborts) reclaim(communicator);
  return result;
}

}  // namespace

ncclResult_t submit(ncclComm* communicator, cudaStream_t stream, bool is_message, KernelBody body) {
  if (const ncclResult_t why = why_not_ready(communicator)) return why;
  ++counters().nccl_calls;
  const Failure failure = next_failure(communicator->rank);
  if (failure.result != ncclSuccess && !failure.later) {
    fail(communicator, failure.result, failure.text);
    return failure.result;
  }
  if (failure.is_stuck) body = [communicator] { return communicator->until([] { return false; }); };
  ncclGroupStart();
  CallBatch& batch = batch_of(communicator);
  bool known = false;
  for (cudaStream_t each : batch.streams) known = known || each == stream;
  if (!known) batch.streams.push_back(stream);
  (is_message ? batch.messages : batch.collectives).push_back(std::move(body));
  if (failure.result != ncclSuccess) batch.failure = failure;
  return ncclGroupEnd();
}

ncclResult_t submit_join(ncclComm* communicator) {
  const Failure failure = next_failure(communicator->rank);
  if (failure.result != ncclSuccess && !failure.later) {
    fail(communicator, failure.result, failure.text);
    return failure.result;
  }
  if (failure.result != ncclSuccess) {
    return begin(communicator, [=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the other ranks are connecting
      set_last_error(failure.text);
      return failure.result;
    });
  }
  if (group.depth > 0) {
    group.joins.push_back(communicator);
    return ncclSuccess;
  }
  return begin(communicator, [=] { return join(communicator); });
}

void submit_abort(ncclComm* communicator) {
  if (group.depth > 0) {
    group.aborts.push_back(communicator);
  } else {
    reclaim(communicator);
  }
}

}  // namespace fake_gpu

extern "C" {

ncclResult_t ncclGroupStart() {
  ++fake_gpu::group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (fake_gpu::group.depth == 0) return ncclInvalidUsage;
  if (--fake_gpu::group.depth > 0) return ncclSuccess;
  return fake_gpu::end_group();
}

}  // extern "C"
