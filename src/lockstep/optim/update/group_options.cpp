#include "lockstep/optim/update/group_options.h"

#include <cstddef>

namespace lockstep {

void set_group_options(torch::optim::Optimizer& optimizer,
                       const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].has_options()) optimizer.param_groups().at(i).set_options(groups[i].options().clone());
  }
}

}  // namespace lockstep
