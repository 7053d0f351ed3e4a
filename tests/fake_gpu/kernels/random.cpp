#include "tests/fake_gpu/kernels/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace fake_gpu {

at::Generator generator_of_call(const c10::IValue& generator, c10::Device device) {
  at::Generator on_device =
      generator.isGenerator() ? generator.toGenerator() : at::globalContext().defaultGenerator(device);
  TORCH_CHECK(on_device.device().is_cuda(), "Expected a 'cuda' device type for generator but found 'cpu'");
  const std::lock_guard<std::mutex> lock(on_device.mutex());
  constexpr std::uint64_t kStep = 4;  // what CUDA's kernels add is a multiple of it
  const std::uint64_t offset = on_device.get_offset();
  on_device.set_offset(offset + kStep);
  return at::detail::createCPUGenerator(on_device.current_seed() * 6364136223846793005U + offset +
                                        1442695040888963407U);
}

}  // namespace fake_gpu
