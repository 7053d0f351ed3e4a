#include "lockstep/parallel/fused/memory/one_copy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

#include "lockstep/base/error.h"
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

at::Tensor allocate_lasting_copy(Communicator& communicator, std::int64_t numel, const at::TensorOptions& options) {
  if (communicator.world_size() == 1) return allocate_own_copy(numel, options);
  const at::Tensor memory = allocate_one_copy(communicator, numel, options);
  const std::size_t bytes = memory.nbytes();
  // A second mapping of the same pages, which the engine does not know: a group that ends takes its own ones back.
  void* const pages = ::mremap(memory.data_ptr(), 0, bytes, MREMAP_MAYMOVE);
  const int code = pages == MAP_FAILED ? errno : 0;
  const at::Tensor worst = at::full({1}, code, at::TensorOptions().dtype(at::kInt));
  communicator.all_reduce(worst, ReduceOp::Max);
  if (const int any = *worst.data_ptr<int>(); any != 0) {
    if (code == 0) ::munmap(pages, bytes);
    throw Error("a rank cannot map its shared memory again: " + errno_text(any), communicator.membership().where(),
                "raise the limit of the address space (ulimit -v), or leave survive_lost_ranks out");
  }
  return at::from_blob(
      pages, {numel}, [bytes](void* data) { ::munmap(data, bytes); }, memory.options());
}

}  // namespace lockstep
