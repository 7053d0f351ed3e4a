#include "lockstep/parallel/fused/memory/one_copy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "lockstep/comm/symmetric_memory.h"
#include "lockstep/optim/kernels/large_pages.h"

namespace lockstep {

at::Tensor allocate_own_copy(std::int64_t numel, const at::TensorOptions& options) {
  at::Tensor memory = at::empty({numel}, options);
  advise_large_pages(memory.data_ptr(), memory.nbytes());
  return memory;
}

at::Tensor allocate_one_copy(Communicator& communicator, std::int64_t numel, const at::TensorOptions& options) {
  if (communicator.world_size() == 1) return allocate_own_copy(numel, options);
  const at::Tensor part =
      communicator.allocate({numel / communicator.world_size()}, c10::typeMetaToScalarType(options.dtype()));
  const auto symmetric = communicator.symmetric_memory(part);
  return at::from_blob(
      symmetric->copy(0), {numel}, [part, symmetric](void*) {}, part.options());
}

}  // namespace lockstep
