#include <ATen/ATen.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "lockstep/comm/process_group.h"

int main() {
  lockstep::init_process_group();  // who is in the job: from the environment
  const std::shared_ptr<lockstep::Communicator> group = lockstep::default_group();

  const at::Tensor right = at::full({1}, 10.0 + group->rank());  // what this rank counted
  group->all_reduce(right);                                      // now the sum, on every rank

  std::vector<std::shared_ptr<lockstep::Work>> works;
  std::vector<at::Tensor> sums;
  for (int i = 0; i < 100; ++i) {
    sums.push_back(at::full({1000}, i, at::kFloat));
    works.push_back(group->all_reduce_async(sums.back()));  // returns at once
  }
  for (const auto& work : works) work->wait();  // the sums are there now, and not before

  if (group->rank() == 0) std::printf("%g right, %g\n", right.item<double>(), sums[99][0].item<double>());
  lockstep::destroy_process_group();
  return 0;
}
