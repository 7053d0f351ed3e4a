#include "lockstep/parallel/agreement/weights_agreement.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/agreement/tensor_digest.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {

void check_equal_weights(Communicator& communicator, const std::vector<NamedTensor>& parameters) {
  const at::NoGradGuard no_grad;
  const auto difference = find_tensor_difference(communicator, tensors_of(parameters));
  if (!difference) return;
  throw Error(fmt::format("parameter \"{}\" is not the same on rank {} as on rank 0, since a rank gave its parameters "
                          "other memory (torch::load or set_)",
                          parameters[difference->index].name, difference->rank),
              communicator.membership().where() + ", DistributedDataParallel",
              "load the same file on every rank; or load before the module is wrapped, which sends rank 0's weights "
              "to all");
}

}  // namespace lockstep
