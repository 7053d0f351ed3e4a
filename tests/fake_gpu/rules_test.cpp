// The fake devices keep the rules of CUDA and NCCL that their tests rely on. Linked with them directly.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <thread>
#include <vector>

extern "C" long fake_gpu_counter(const char* name);
extern "C" unsigned fake_gpu_context_mask();

namespace {

using std::chrono::milliseconds;

/// Work of a stream that lasts until `open`.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    EXPECT_EQ(cudaLaunchHostFunc(
                  stream,
                  [](void* gate) {
                    while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
                  },
                  &is_open_),
              cudaSuccess);
  }
  void open() { is_open_ = true; }

 private:
  std::atomic<bool> is_open_{false};
};

struct TwoStreams {
  TwoStreams() {
    for (cudaStream_t* stream : {&first, &second}) cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
  }
  cudaStream_t first = nullptr, second = nullptr;
};

float* device_floats(std::size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, count * sizeof(float)), cudaSuccess);
  return static_cast<float*>(memory);
}

float value_of(const float* on_device) {
  float value = 0;
  EXPECT_EQ(cudaMemcpy(&value, on_device, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  return value;
}

TEST(FakeMemory, IsFullOfNaN) { EXPECT_TRUE(std::isnan(value_of(device_floats(1)))); }

TEST(FakeMemoryDeathTest, IsNotTheHosts) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(*device_floats(1) = 1, ::testing::KilledBySignal(SIGSEGV),
              "the host touched an address of device memory");
}

TEST(FakeStream, IsWaitedForByAnEventAlone) {
  const TwoStreams streams;
  float* const memory = device_floats(1);
  const float one = 1;
  Gate gate(streams.first);
  ASSERT_EQ(cudaMemcpyAsync(memory, &one, sizeof one, cudaMemcpyHostToDevice, streams.first), cudaSuccess);
  cudaEvent_t written;
  ASSERT_EQ(cudaEventCreateWithFlags(&written, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(written, streams.first), cudaSuccess);
  float before = 0, after = 0;
  // A copy to pageable memory waits for its own stream.
  ASSERT_EQ(cudaMemcpyAsync(&before, memory, sizeof before, cudaMemcpyDeviceToHost, streams.second), cudaSuccess);
  EXPECT_TRUE(std::isnan(before));
  EXPECT_EQ(cudaEventQuery(written), cudaErrorNotReady);
  ASSERT_EQ(cudaStreamWaitEvent(streams.second, written, 0), cudaSuccess);
  gate.open();
  ASSERT_EQ(cudaMemcpyAsync(&after, memory, sizeof after, cudaMemcpyDeviceToHost, streams.second), cudaSuccess);
  EXPECT_EQ(after, 1);
}

TEST(FakeCopy, ReadsPinnedMemoryWhenTheStreamGetsThere) {
  const TwoStreams streams;
  float* const memory = device_floats(1);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(float)), cudaSuccess);
  float* const value = static_cast<float*>(pinned);
  *value = 1;
  Gate gate(streams.first);
  ASSERT_EQ(cudaMemcpyAsync(memory, value, sizeof(float), cudaMemcpyHostToDevice, streams.first), cudaSuccess);
  *value = 2;  // too early
  gate.open();
  ASSERT_EQ(cudaStreamSynchronize(streams.first), cudaSuccess);
  EXPECT_EQ(value_of(memory), 2);
}

TEST(FakeFree, WaitsForTheWholeDevice) {
  const TwoStreams streams;
  float* const memory = device_floats(1);
  Gate gate(streams.second);
  auto freed = std::async(std::launch::async, [memory] { return cudaFree(memory); });
  EXPECT_EQ(freed.wait_for(milliseconds(50)), std::future_status::timeout);
  gate.open();
  EXPECT_EQ(freed.get(), cudaSuccess);
}

TEST(FakeContext, IsMadeOnTheDeviceOfTheThread) {
  std::thread([] {
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    int device = 0;
    std::thread([&device] { cudaGetDevice(&device); }).join();
    EXPECT_EQ(device, 0) << "another thread begins with device 0";
  }).join();
  EXPECT_EQ(fake_gpu_context_mask() & 2U, 2U);
}

TEST(FakeEvent, BelongsToItsDevice) {
  cudaEvent_t event;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  std::thread([event] {
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  }).join();
}

TEST(FakeCapture, ForbidsToWaitAndToAsk) {
  const TwoStreams streams;
  ASSERT_EQ(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(streams.first), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamSynchronize(streams.first), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(streams.first, &graph), cudaSuccess);
}

TEST(FakeCounters, CountWaitsOfTheHost) {
  const long before = fake_gpu_counter("host_waits");
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(fake_gpu_counter("host_waits"), before + 1);
  EXPECT_EQ(fake_gpu_counter("no such name"), -1);
}

/// Two ranks of one communicator on the devices 0 and 1, in this process.
std::vector<ncclComm_t> two_ranks() {
  std::vector<ncclComm_t> communicators(2);
  EXPECT_EQ(ncclCommInitAll(communicators.data(), 2, nullptr), ncclSuccess);
  return communicators;
}

cudaStream_t stream_on(int device) {
  cudaStream_t stream = nullptr;
  cudaSetDevice(device);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

TEST(FakeNccl, AddsOverTheRanks) {
  const auto ranks = two_ranks();
  std::vector<float*> values;
  std::vector<cudaStream_t> streams;
  for (int rank = 0; rank < 2; ++rank) {
    streams.push_back(stream_on(rank));
    values.push_back(device_floats(1));
    const float mine = static_cast<float>(rank + 1);
    cudaMemcpy(values.back(), &mine, sizeof mine, cudaMemcpyHostToDevice);
  }
  ncclGroupStart();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ncclAllReduce(values[rank], values[rank], 1, ncclFloat, ncclSum, ranks[rank], streams[rank]);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    cudaStreamSynchronize(streams[rank]);
    EXPECT_EQ(value_of(values[rank]), 3);
  }
  cudaSetDevice(0);
}

// Rank 0 waits on its device in two communicators, and rank 1 never comes.
struct TwoStuckCommunicators {
  TwoStuckCommunicators() {
    for (ncclComm_t* communicator : {&first, &second}) {
      *communicator = two_ranks()[0];
      float* const memory = device_floats(1);
      cudaStream_t const stream = stream_on(0);
      EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, *communicator, stream), ncclSuccess);
    }
  }
  ncclComm_t first = nullptr, second = nullptr;
};

TEST(FakeNccl, HangsIfCommunicatorsOfADeviceAreAbortedOneAfterTheOther) {
  const TwoStuckCommunicators stuck;
  auto aborted = std::async(std::launch::async, [&] { return ncclCommAbort(stuck.first); });
  EXPECT_EQ(aborted.wait_for(milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(ncclCommAbort(stuck.second), ncclSuccess);  // by another thread, which ends both
  EXPECT_EQ(aborted.get(), ncclSuccess);
}

TEST(FakeNccl, AbortsInAGroup) {
  const TwoStuckCommunicators stuck;
  ncclGroupStart();
  ncclCommAbort(stuck.first);
  ncclCommAbort(stuck.second);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(FakeNccl, RefusesTwoRanksOnOneDevice) {
  std::vector<ncclComm_t> communicators(2);
  const std::vector<int> devices{1, 1};
  EXPECT_EQ(ncclCommInitAll(communicators.data(), 2, devices.data()), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU"), std::string::npos);
}

}  // namespace
