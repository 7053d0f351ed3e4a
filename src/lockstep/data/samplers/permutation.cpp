#include "lockstep/data/samplers/permutation.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

namespace lockstep {

at::Tensor random_permutation(std::int64_t n, std::uint64_t seed) {
  return at::randperm(n, at::detail::createCPUGenerator(seed), at::kLong);
}

}  // namespace lockstep
