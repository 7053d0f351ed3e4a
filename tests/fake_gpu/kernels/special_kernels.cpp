#include "tests/fake_gpu/kernels/special_kernels.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "tests/fake_gpu/kernels/arguments.h"
#include "tests/fake_gpu/kernels/random.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/fake_device.h"

namespace at::native {
at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking);
}

namespace fake_gpu {
namespace {

bool is_copied_by_bytes(const at::Tensor& self, const at::Tensor& source) {
  return self.scalar_type() == source.scalar_type() && self.sizes() == source.sizes() &&
         self.strides() == source.strides() && self.is_non_overlapping_and_dense() &&
         self.is_conj() == source.is_conj() && self.is_neg() == source.is_neg();
}

}  // namespace

at::Tensor& copy_on_device(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const bool both = self.is_cuda() && source.is_cuda();
  if (!both || is_copied_by_bytes(self, source)) return at::native::copy_(self, source, non_blocking);
  if (self.device() != source.device()) {
    // In the layout of the target, on the device of the source: then bytes travel.
    const at::Tensor there = at::empty_like(self, self.options().device(source.device()));
    at::Tensor here = there;
    copy_on_device(here, source, non_blocking);
    if (is_copied_by_bytes(self, there)) return at::native::copy_(self, there, non_blocking);
    at::Tensor packed = at::empty_like(there, self.options());
    at::native::copy_(packed, there, non_blocking);
    return copy_on_device(self, packed, non_blocking);
  }
  const c10::cuda::CUDAGuard guard(self.device());
  ++counters().launches;
  run_on_stream(c10::cuda::getCurrentCUDAStream(self.device().index()),
                [to = host_tensor(self), from = host_tensor(source)] { to.copy_(from); });
  return self;
}

std::tuple<at::Tensor, at::Tensor> dropout_on_device(const at::Tensor& input, double p, std::optional<bool> train) {
  const c10::cuda::CUDAGuard guard(input.device());
  ++counters().launches;
  const at::Tensor out = at::empty_like(input);
  const at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  const double kept = train.value_or(true) ? 1 - p : 1;
  run_on_stream(c10::cuda::getCurrentCUDAStream(input.device().index()),
                [=, to = host_tensor(out), which = host_tensor(mask), from = host_tensor(input),
                 generator = generator_of_call({}, input.device())]() mutable {
                  which.bernoulli_(kept, generator);
                  to.copy_(from * which * (kept > 0 ? 1 / kept : 0));
                });
  return {out, mask};
}

std::int64_t attention_by_products(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool) {
  return 0;
}

}  // namespace fake_gpu
