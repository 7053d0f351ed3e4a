#include "lockstep/parallel/deferred/deferred_parameters.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/fused/weights/watched_key.h"

namespace lockstep {

// Never destroyed: a static model may end after everything else.
DeferredParameters& DeferredParameters::all() {
  static auto& all = *new DeferredParameters;
  return all;
}

void DeferredParameters::add(const at::Tensor& parameter, std::shared_ptr<DeferredWeight> weight) {
  watch_operations();
  const std::lock_guard<std::mutex> lock(mutex_);
  become(parameter, watched_without_memory(parameter));
  Entry entry{parameter, std::move(weight), std::make_unique<WatchedParameters>()};
  entry.watch->add(parameter, *this, next_);
  entries_.emplace(next_++, std::move(entry));
}

std::shared_ptr<DeferredWeight> DeferredParameters::find(const at::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [number, entry] : entries_) {
    if (entry.parameter.is_same(parameter)) return entry.weight;
  }
  return nullptr;
}

void DeferredParameters::forget(const at::Tensor& parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (!entry->second.parameter.is_same(parameter)) continue;
    entries_.erase(entry);
    return;
  }
}

// This object and its watch have one handle each.
void DeferredParameters::forget_unused() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    entry = entry->second.parameter.use_count() <= 2 ? entries_.erase(entry) : std::next(entry);
  }
}

// Its parameters have no memory, so nobody asks.
std::size_t DeferredParameters::parameter_at(std::size_t, std::int64_t) const { return 0; }

void DeferredParameters::begin_read(std::size_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;  // another thread has made it
  become(found->second.parameter, found->second.weight->make());
  found->second.weight->forget();
  entries_.erase(found);
}

std::string deferred_text(const at::Tensor& parameter) {
  const auto weight = DeferredParameters::all().find(parameter);
  return weight ? ", deferred: " + weight->text() : "";
}

DeferredOfModule::DeferredOfModule(Communicator& communicator, const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> states;
  for (const NamedTensor& parameter : parameters) {
    const auto weight = DeferredParameters::all().find(parameter.tensor);
    if (!weight) {
      in_memory_.push_back(parameter.tensor);
      continue;
    }
    deferred_.push_back({parameter, weight});
    const auto more = weight->generator_states();
    states.insert(states.end(), more.begin(), more.end());
  }
  broadcast_coalesced(communicator, states, 0);
  auto next = states.begin();
  for (const Deferred& deferred : deferred_) {
    const auto end = next + static_cast<std::ptrdiff_t>(deferred.weight->generator_states().size());
    deferred.weight->set_generator_states({next, end});
    next = end;
  }
}

std::vector<at::Tensor> DeferredOfModule::make(const std::function<bool(const at::Tensor&)>& is_meant) const {
  std::vector<at::Tensor> tensors;
  for (const Deferred& deferred : deferred_) {
    const at::Tensor& parameter = deferred.parameter.tensor;
    if (!is_meant(parameter)) continue;
    (void)parameter.detach();  // an operation that reads it
    tensors.push_back(parameter);
  }
  return tensors;
}

void DeferredOfModule::check_made(Communicator& communicator) const {
  const auto number = static_cast<std::int64_t>(deferred_.size());
  const auto longs = at::TensorOptions().dtype(at::kLong);
  at::Tensor mine = at::zeros({number, 2}, longs), everyone = at::zeros({communicator.world_size(), number, 2}, longs);
  for (std::int64_t i = 0; i < number; ++i) {
    const Deferred& deferred = deferred_[static_cast<std::size_t>(i)];
    const std::optional<std::uint64_t>& digest = deferred.weight->digest();
    mine[i][0] = digest ? 1 : 0;
    mine[i][1] = static_cast<std::int64_t>(digest.value_or(0));
    if (!is_watched(deferred.parameter.tensor)) DeferredParameters::all().forget(deferred.parameter.tensor);
  }
  communicator.all_gather(everyone, mine);
  for (std::int64_t i = 0; i < number; ++i) {
    std::optional<std::int64_t> first;
    int first_rank = 0;
    for (int rank = 0; rank < communicator.world_size(); ++rank) {
      if (everyone[rank][i][0].item<std::int64_t>() == 0) continue;
      const auto digest = everyone[rank][i][1].item<std::int64_t>();
      if (!first) first_rank = rank;
      if (first.value_or(digest) != digest) {
        throw Error(fmt::format("ranks {} and {} have made different weights \"{}\"", first_rank, rank,
                                deferred_[static_cast<std::size_t>(i)].parameter.name),
                    communicator.membership().where(),
                    "let every rank read the same file, and build the model in the same way");
      }
      first = digest;
    }
  }
}

}  // namespace lockstep
