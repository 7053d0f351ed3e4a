#include "lockstep/parallel/fused/recovery/host_copy.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace lockstep {
namespace {

constexpr int kCopyTag = 0x53554e;  // apart from messages of the program

}  // namespace

HostCopy::HostCopy(const MemoryHosts& hosts, std::vector<bool> have, Communicator& communicator)
    : hosts_(hosts), have_(std::move(have)), communicator_(communicator) {}

bool HostCopy::any_lacks() const {
  return std::any_of(have_.begin(), have_.end(), [](bool has) { return !has; });
}

int HostCopy::source_of(int host) const {
  int source = host;
  while (!has(source)) source = (source + hosts_.count() - 1) % hosts_.count();
  return source;
}

void HostCopy::copy(const at::Tensor& memory) const {
  std::vector<std::shared_ptr<Work>> pending;
  for (int host = 0; host < hosts_.count(); ++host) {
    if (has(host)) continue;
    const std::vector<int>& to = hosts_.ranks[static_cast<std::size_t>(host)];
    const std::vector<int>& from = hosts_.ranks[static_cast<std::size_t>(source_of(host))];
    const auto parts = static_cast<std::int64_t>(to.size());
    for (std::size_t place = 0; place < to.size(); ++place) {
      const auto k = static_cast<std::int64_t>(place);
      const std::int64_t begin = memory.numel() * k / parts;
      const at::Tensor part = memory.narrow(0, begin, memory.numel() * (k + 1) / parts - begin);
      const int sender = from[place % from.size()];
      if (to[place] == hosts_.rank) pending.push_back(communicator_.irecv(part, sender, kCopyTag));
      if (sender == hosts_.rank) pending.push_back(communicator_.isend(part, to[place], kCopyTag));
    }
  }
  for (const std::shared_ptr<Work>& work : pending) work->wait();
  communicator_.barrier();
}

}  // namespace lockstep
