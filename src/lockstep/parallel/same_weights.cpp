#include "lockstep/parallel/same_weights.h"

#include <fmt/format.h>

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/tensor_digest.h"

namespace lockstep {

void require_same_weights(Communicator& group, torch::nn::Module& module) {
  if (group.world_size() == 1) return;
  const ModuleTensors tensors = module_tensors(module);
  std::vector<NamedTensor> all = tensors.parameters;
  const std::vector<NamedTensor> buffers = tensors.buffers();
  check_equal_across_ranks(group, all, "parameter");
  check_equal_buffers_across_ranks(group, buffers);
  all.insert(all.end(), buffers.begin(), buffers.end());
  std::vector<at::Tensor> values;
  for (const NamedTensor& each : all) values.push_back(each.tensor);
  const auto difference = find_tensor_difference(group, values);
  if (!difference) return;
  const bool is_buffer = difference->index >= tensors.parameters.size();
  throw Error(fmt::format("the ranks do not have the same weights: {} \"{}\" of rank {} is not that of rank 0",
                          is_buffer ? "buffer" : "parameter", all[difference->index].name, difference->rank),
              group.membership().where() + ", require_same_weights",
              is_buffer ? "let a buffer be computed from the same numbers on every rank, or send rank 0's: "
                          "group->broadcast(buffer, 0)"
                        : "let whatever decides about weights be equal on every rank "
                          "(docs/reference/needs-more-than-the-wrap.md)");
}

}  // namespace lockstep
