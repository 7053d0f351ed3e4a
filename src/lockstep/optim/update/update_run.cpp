#include "lockstep/optim/update/update_run.h"

#include <algorithm>

#include "lockstep/optim/kernels/parallel_over.h"

namespace lockstep {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements for which waking a thread pays

bool continues(const UpdateRun& a, const UpdateRun& b) {
  if (a.group != b.group || a.step != b.step || a.first != b.first || a.type != b.type ||
      a.gradient_type != b.gradient_type || a.sources.size() != b.sources.size()) {
    return false;
  }
  if (a.copy.out != nullptr || b.copy.out != nullptr) return false;
  const std::size_t bytes = a.numel * element_size_bytes(a.type);
  if (a.param + bytes != b.param || a.param_out + bytes != b.param_out) return false;
  const auto touch = [&](const std::byte* first, const std::byte* second) {
    return first == nullptr ? second == nullptr : first + bytes == second;
  };
  for (std::size_t i = 0; i < UpdateRun::kMaxBuffers; ++i) {
    if (!touch(a.buffers[i], b.buffers[i])) return false;
  }
  const std::size_t gradient_bytes = a.numel * element_size_bytes(a.gradient_type);
  for (std::size_t k = 0; k < a.sources.size(); ++k) {
    if (static_cast<std::byte*>(a.sources[k]) + gradient_bytes != b.sources[k]) return false;
  }
  return true;
}

}  // namespace

void RunList::add(const UpdateRun& run) {
  if (run.numel == 0) return;
  if (!runs_.empty() && continues(runs_.back(), run)) {
    runs_.back().numel += run.numel;
  } else {
    runs_.push_back(run);
  }
}

void RunList::execute(const Update& update) const {
  if (!runs_.empty() && runs_.front().undo.word != nullptr) {
    for (const UpdateRun& run : runs_) update(run, 0, run.numel);
    return;
  }
  std::vector<std::size_t> starts;  // first element of each run, counted over all runs
  std::size_t total = 0;
  for (const UpdateRun& run : runs_) {
    starts.push_back(total);
    total += run.numel;
  }
  parallel_over(static_cast<std::int64_t>(total), kGrain, [&](std::int64_t first, std::int64_t last) {
    auto at = static_cast<std::size_t>(first);
    const auto end = static_cast<std::size_t>(last);
    auto i = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), at) - starts.begin()) - 1;
    for (; at < end; ++i) {
      const std::size_t until = std::min(end, starts[i] + runs_[i].numel);
      update(runs_[i], at - starts[i], until - starts[i]);
      at = until;
    }
  });
}

}  // namespace lockstep
