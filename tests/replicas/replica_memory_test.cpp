// Measures the memory of a second CPU replica: gradients and activations, but no weights.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/processor/heap.h"
#include "lockstep/base/processor/process_memory.h"
#include "lockstep/replicas/data_parallel.h"
#include "tests/replicas/replica_fixtures.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using replica_tests::cpu_devices;

// 16 layers of 4 MiB: blocks that malloc does not return to the kernel one by one.
torch::nn::Sequential wide_layers() {
  torch::nn::Sequential layers;
  for (int i = 0; i < 16; ++i) layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(1024, 1024).bias(false)));
  return layers;
}
constexpr std::int64_t kWeightBytes = std::int64_t{16} * 1024 * 1024 * 4;

TEST(ReplicaMemory, ASecondReplicaHasGradientsOfItsOwnAndNoWeights) {
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "the sanitizer keeps what is freed";
  torch::nn::Sequential model = wide_layers();
  const at::Tensor x = torch::randn({2, 1024});
  model->forward(x.slice(0, 0, 1)).sum().backward();
  keep_freed_memory();
  release_freed_memory();  // memory left by other tests
  const std::int64_t before = process_memory().resident;
  ASSERT_GT(before, 2 * kWeightBytes);
  DataParallel dp(model, cpu_devices(2));
  const std::int64_t made = process_memory().resident;
  EXPECT_LT(made - before, kWeightBytes / 4);
  for (int step = 0; step < 3; ++step) dp(x).sum().backward();
  const std::int64_t trained = process_memory().resident;
  EXPECT_GT(trained - before, kWeightBytes / 2);  // the gradients: proves that the measurement sees memory
  EXPECT_LT(trained - before, 2 * kWeightBytes);  // and the buffers into which each thread's OpenBLAS packs matrices
}

}  // namespace
}  // namespace lockstep
