#include "lockstep/parallel/fused/weights/sharded_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/reduce_marks.h"
#include "lockstep/parallel/update/update_context.h"

namespace lockstep {
namespace {

void warn_of_one_unit() {
  log_warning(
      "fuse: no submodule is a unit, so all weights are gathered together, and each rank holds all of them in forward "
      "and backward. Name the layers by units, unit_types or unit_min_params; without these, numbered submodules are "
      "units (\"layers.0\"), and the module has none");
}

}  // namespace

ShardedWeights::ShardedWeights(const Parts& parts, const std::vector<std::string>& units, bool reshard_after_forward)
    : gradients_(parts.gradients),
      buckets_(parts.buckets),
      communicator_(parts.communicator),
      group_(parts.communicator->split(0, parts.communicator->rank())),
      units_(units, parts.buckets, parts.gradients),
      shards_(gradients_, buckets_, bytes_),
      gathering_(UnitGathering::Needs{gradients_, buckets_, units_, shards_, bytes_, *communicator_, *group_,
                                      parts.position, parts.has_copies, parts.follows_backward,
                                      reshard_after_forward}) {
  const at::NoGradGuard no_grad;
  auto* const engine = parts.gathers_for_host ? &dynamic_cast<HostMemoryEngine&>(*group_) : nullptr;
  // All of it before the first parameter loses its own.
  shards_.make_memory(gathering_, engine);
  if (parts.has_copies) {
    copies_ = std::make_unique<ShardedCopies>(
        GatheredParts::Needs{gradients_, buckets_, units_, parts.plan, shards_, bytes_, communicator_->rank(), engine},
        gathering_, *communicator_);
    gathering_.use_parts(copies_->parts());
    shards_.share_out(watched_, *copies_, copies_->first_without_memory());
  } else {
    shards_.share_out(watched_, gathering_, 0);
  }
  bytes_.note_peak();
  if (units.empty() && communicator_->rank() == 0) warn_of_one_unit();
}

ShardedWeights::~ShardedWeights() {
  const at::NoGradGuard no_grad;
  try {
    for (std::size_t index = 0; gathering_.keeps_all() && index < buckets_.size(); ++index) {
      shards_.give_own_memory(index);
    }
  } catch (const std::exception& error) {
    log_warning("the weights stay in shards: {}", error.what());
  }
  gathering_.free_quietly();
}

// The parameter must be in memory: with its bucket, or by its unit's part.
ShownWeight ShardedWeights::shown(std::size_t index, std::size_t place) const {
  if (shards_.is_shown(index, place)) return shards_.shown(index, place);
  return copies_->parts().shown(buckets_[index].parameters[place]);
}

void ShardedWeights::take_writes() {
  for (std::size_t index = 0; gathering_.keeps_all() && index < buckets_.size(); ++index) {
    for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
      const at::Tensor& parameter = gradients_.parameter(buckets_[index].parameters[place]);
      if (!is_watched(parameter) || is_absent(parameter)) continue;
      const ShownWeight now = shown(index, place);
      if (shards_.is_written(index, place, now)) shards_.give_own_memory(index, place, now.elements);
    }
  }
}

void ShardedWeights::give_back() {
  gathering_.free_all();
  gathering_.visit_all([this](const WeightUnit& unit) {
    for (const std::size_t index : unit.buckets) shards_.give_own_memory(index);
  });
}

void ShardedWeights::adopt(std::size_t index, std::size_t place) {
  shards_.adopt(index, place);
  if (copies_) copies_->round_again(index, place);
}

// These elements of the parameter, which are this rank's. Nothing is freed, because the other ranks may keep what is
// gathered, and all ranks must gather alike. The result has memory of its own if the program has written to a gathered
// weight, whose memory is freed sooner.
at::Tensor ShardedWeights::own_values(std::size_t index, std::size_t place, std::int64_t begin,
                                      std::int64_t end) const {
  const at::Tensor& parameter = gradients_.parameter(buckets_[index].parameters[place]);
  const std::int64_t count = std::max<std::int64_t>(0, end - begin);
  if (is_moved(index, place)) return parameter.detach().reshape({-1}).slice(0, begin, begin + count);
  const Region& own = buckets_[index].own;
  const std::int64_t first = count > 0 ? begin + buckets_[index].offsets[place] - own.begin : 0;
  const at::Tensor values = shards_.shard(index).narrow(0, first, count);
  if (count == 0 || is_absent(parameter) || !shards_.is_written(index, place, shown(index, place))) return values;
  const at::Tensor written = at::empty_like(values);
  const auto offset = static_cast<std::size_t>(begin) * values.element_size();
  std::memcpy(written.data_ptr(), shown(index, place).elements + offset, written.nbytes());
  return written;
}

TensorParts ShardedWeights::own_parts() {
  const at::NoGradGuard no_grad;
  TensorParts parts;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const FusedBucket& bucket = buckets_[index];
    for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
      const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
      TensorPart part{gradients_.name(bucket.parameters[place]), parameter.sizes().vec(), 0, 0, {}};
      const Region own = shards_.own_part(index, place);
      if (own.begin < own.end) {
        part.begin = own.begin - bucket.offsets[place];
        part.end = own.end - bucket.offsets[place];
      }
      part.tensor = own_values(index, place, part.begin, part.end);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

void ShardedWeights::write_own_parts(const std::function<void(const TensorParts&)>& write) {
  const at::NoGradGuard no_grad;
  free_all();
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
      if (is_moved(index, place)) adopt(index, place);
    }
  }
  write(own_parts());
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
      // A backward that has saved the old values must notice.
      gradients_.parameter(buckets_[index].parameters[place]).unsafeGetTensorImpl()->bump_version();
      if (copies_) copies_->round_again(index, place);
    }
  }
}

// Ranks without the write have a share of the parameter alone, which cannot be compared.
void ShardedWeights::check_comparable(const WeightChanges& changes) const {
  std::vector<std::uint8_t> missing(changes.here.size(), 0);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    missing[i] = changes.anywhere[i] == WeightChanges::kMoved && changes.here[i] != WeightChanges::kMoved ? 1 : 0;
  }
  reduce_marks(*communicator_, missing);
  const auto found = std::find(missing.begin(), missing.end(), 1);
  if (found == missing.end()) return;
  throw AgreedError(fmt::format("parameter \"{}\" was written or moved to other memory on some ranks, but not on all",
                                gradients_.name(static_cast<std::size_t>(found - missing.begin()))),
                    communicator_->membership().where() + ", fused optimizer of stage 3",
                    "write the same values on every rank, between unshard() and reshard() and without data(), or load "
                    "the same file on every rank");
}

}  // namespace lockstep
