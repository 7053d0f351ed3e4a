#include "bench/measure/plain_pass.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/optim/kernels/large_pages.h"
#include "lockstep/optim/kernels/parallel_over.h"

namespace lockstep {

at::Tensor make_plain(std::int64_t numel) {
  const at::Tensor memory = at::empty({numel});
  advise_large_pages(memory.data_ptr(), memory.nbytes());
  return at::Tensor(memory).fill_(1);
}

void pass_through(const std::vector<at::Tensor>& written, const std::vector<at::Tensor>& read) {
  constexpr std::int64_t kBlock = 2048;
  const std::int64_t numel = written.empty() ? read[0].numel() : written[0].numel();
  parallel_over(numel, 1 << 15, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t begin = first; begin < last; begin += kBlock) {
      const auto end = static_cast<std::size_t>(std::min(begin + kBlock, last));
      for (const auto* tensors : {&written, &read}) {
        for (const at::Tensor& tensor : *tensors) {
          void* memory = tensor.data_ptr();
          GradientSource source;
          source.sources = &memory;
          source.factor = 1.0001;
          const auto from = static_cast<std::size_t>(begin);
          if (tensors == &written) {
            scale_in_place(source, from, end, widest_instruction_set());
          } else {
            all_finite(source, from, end, widest_instruction_set());
          }
        }
      }
    }
  });
}

}  // namespace lockstep
