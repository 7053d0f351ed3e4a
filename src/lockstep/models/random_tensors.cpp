#include "lockstep/models/random_tensors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

RandomTensors::RandomTensors(const RandomBatchOptions& options, const std::string& model)
    : generator_(at::detail::createCPUGenerator(options.seed)) {
  if (options.size > 0) return;
  throw Error(fmt::format("a batch of {} samples was asked for", options.size), model, "ask for at least one sample");
}

at::Tensor RandomTensors::normal(at::IntArrayRef sizes) { return at::randn(sizes, generator_); }

at::Tensor RandomTensors::uniform(at::IntArrayRef sizes) { return at::rand(sizes, generator_); }

at::Tensor RandomTensors::integers(at::IntArrayRef sizes, std::int64_t high, std::int64_t low) {
  return at::randint(low, high, sizes, generator_, at::TensorOptions().dtype(at::kLong));
}

}  // namespace lockstep
