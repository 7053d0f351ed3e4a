#include "lockstep/comm/hierarchical/host_order.h"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <vector>

#include "lockstep/comm/reduce/elements.h"

namespace lockstep {

ReduceOp op_of_stages(const HostLayout& layout, ReduceOp op) {
  return op == ReduceOp::Avg && !layout.equal ? ReduceOp::Sum : op;
}

void reduce_in_host_order(at::Tensor& out, const at::Tensor& in, const HostLayout& layout, ReduceOp op) {
  const shm::Element element = element_of(in.scalar_type());
  const shm::Reduction reduction = reduction_of(op_of_stages(layout, op));
  const auto count = static_cast<std::size_t>(out.numel());
  const std::size_t bytes = count * shm::element_bytes(element);
  const auto reduce = [&](const std::vector<const std::byte*>& sources, std::byte* destination) {
    shm::reduce(element, reduction, sources.data(), static_cast<int>(sources.size()), &destination, 1, count);
  };
  const at::Tensor of_hosts = at::empty({layout.host_count() * out.numel()}, in.options());
  std::vector<const std::byte*> results;
  for (const std::vector<int>& ranks : layout.hosts) {
    std::vector<const std::byte*> values;
    for (const int rank : ranks) {
      values.push_back(static_cast<const std::byte*>(in.data_ptr()) + static_cast<std::size_t>(rank) * bytes);
    }
    std::byte* const result = static_cast<std::byte*>(of_hosts.data_ptr()) + results.size() * bytes;
    reduce(values, result);
    results.push_back(result);
  }
  reduce(results, static_cast<std::byte*>(out.data_ptr()));
  if (op_of_stages(layout, op) != op) out.div_(in.numel() / out.numel());
}

}  // namespace lockstep
