#include "lockstep/parallel/fused/recovery/memory_hosts.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/base/processor/instruction_set.h"
#include "lockstep/base/random/mix_bits.h"

namespace lockstep {
namespace {

// Stands for the memory file and the host that it is on; 0: there is none.
std::int64_t sign_of(const JobMemoryMap* job, const std::string& host_id) {
  struct stat status {};
  if (job == nullptr || ::fstat(job->file(), &status) != 0) return 0;
  std::uint64_t sign = mix_bits(static_cast<std::uint64_t>(status.st_ino));
  for (const char each : host_id) sign = mix_bits(sign + static_cast<std::uint8_t>(each) + 1);
  return static_cast<std::int64_t>(sign | 1);
}

}  // namespace

MemoryHosts MemoryHosts::of(Communicator& communicator, const JobMemoryMap* job) {
  const auto longs = at::TensorOptions().dtype(at::kLong);
  // Kernels of all wider instruction sets have equal bits (kernels.h).
  const std::int64_t rounds_twice = widest_instruction_set() == InstructionSet::Baseline ? 1 : 0;
  at::Tensor all = at::tensor({sign_of(job, communicator.membership().self().host_id), rounds_twice}, longs);
  if (communicator.world_size() > 1) {
    const at::Tensor mine = all;
    all = at::empty({2 * communicator.world_size()}, longs);
    communicator.all_gather(all, mine);
  }
  MemoryHosts result;
  result.rank = communicator.rank();
  std::map<std::int64_t, int> known;
  for (int each = 0; each < communicator.world_size(); ++each) {
    const std::int64_t* const of_rank = all.data_ptr<std::int64_t>() + 2 * each;
    const std::int64_t sign = of_rank[0];
    result.all_have = result.all_have && sign != 0;
    result.all_round_alike = result.all_round_alike && of_rank[1] == rounds_twice;
    const auto [found, is_new] = known.emplace(sign, result.count());
    if (is_new) result.ranks.emplace_back();
    std::vector<int>& of_host = result.ranks[static_cast<std::size_t>(found->second)];
    result.host_of.push_back(found->second);
    result.place_of.push_back(static_cast<int>(of_host.size()));
    of_host.push_back(each);
  }
  return result;
}

}  // namespace lockstep
