#include "lockstep/elastic/kept_state.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lockstep/parallel/fused/recovery/memory_hosts.h"

namespace lockstep {

KeptState find_kept_state(Communicator& group, const UpdateRescue& rescue, bool can_fuse, bool is_new) {
  const MemoryHosts hosts = MemoryHosts::of(group, rescue.memory().get());
  const bool knows = !is_new && rescue.state() != nullptr && rescue.has_memory();
  // Ranks that cannot take part, new ones, and for each host those that know what is there.
  const at::Tensor counts = at::zeros({2 + hosts.count()}, at::TensorOptions().dtype(at::kInt));
  int* const values = counts.data_ptr<int>();
  values[0] = can_fuse && (is_new || knows) ? 0 : 1;
  values[1] = is_new ? 1 : 0;
  values[2 + hosts.host()] = knows ? 1 : 0;
  if (group.world_size() > 1) group.all_reduce(counts);
  KeptState result;
  result.has_new = values[1] > 0;
  std::vector<bool>& known = result.hosts;
  for (int host = 0; host < hosts.count(); ++host) known.push_back(values[2 + host] > 0);
  if (values[0] > 0 || std::find(known.begin(), known.end(), true) == known.end()) known.clear();
  return result;
}

}  // namespace lockstep
