#include "lockstep/parallel/fused/weights/sharded_copies.h"

#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/reduce_marks.h"

namespace lockstep {

ShardedCopies::ShardedCopies(const GatheredParts::Needs& needs, UnitGathering& gathering, Communicator& communicator)
    : with_(needs),
      gathering_(gathering),
      communicator_(communicator),
      count_(needs.gradients.num_parameters()),
      parts_(*this, needs),
      weights_(count_) {
  std::vector<at::Tensor> offered;
  for (const FusedBucket& bucket : with_.buckets) {
    for (const std::size_t i : bucket.parameters) {
      if (!parts_.copy_of(i).defined()) continue;
      offered.push_back(with_.gradients.parameter(i));
      indices_.emplace(offered.back().unsafeGetTensorImpl(), i);
    }
  }
  offer_.emplace(offered, *this);
}

std::size_t ShardedCopies::parameter_at(std::size_t memory, std::int64_t element) const {
  if (memory < 3 * count_) return memory;
  const UnitPart& part = parts_.part(memory - 3 * count_);
  const UnitPart::Entry& entry = part.entries()[part.entry_at(static_cast<std::size_t>(element))];
  return entry.is_copy ? count_ + entry.parameter : entry.parameter;
}

at::Tensor ShardedCopies::current_copy(const at::Tensor& parameter) {
  const auto found = indices_.find(parameter.unsafeGetTensorImpl());
  if (found == indices_.end() || !is_watched(parameter)) return {};  // the program has moved it
  if (!weights_[found->second].has_copy) wish(found->second, Wish::Copy);
  return is_absent(parameter) ? parts_.copy_of(found->second) : at::Tensor();
}

void ShardedCopies::wish(std::size_t parameter, Wish what) {
  weights_[parameter].wish.store(what, std::memory_order_relaxed);
  are_wanted_.store(true, std::memory_order_relaxed);
}

// Depends on what the ranks have agreed on, and not on what is in memory: `end_read` must find the same unit.
std::size_t ShardedCopies::unit_to_read(std::size_t number) const {
  const std::size_t parameter = number % count_;
  const std::size_t unit = with_.units.of[parameter];
  const bool is_in_part = kind_of(number) != Kind::Absent || parts_.brings_itself(parameter);
  return is_in_part ? unit : gathering_.whole_of(unit);
}

void ShardedCopies::begin_read(std::size_t number) {
  const std::size_t parameter = number % count_;
  const std::size_t unit = unit_to_read(number);
  const Weight& weight = weights_[parameter];
  if (kind_of(number) == Kind::Absent && weight.has_copy && !weight.is_read_itself) wish(parameter, Wish::Itself);
  gathering_.begin_unit(unit, parameter);
  if (kind_of(number) != Kind::Copy || weight.has_copy) return;
  try {
    parts_.round(parameter, unit);  // the ranks have not agreed on a copy of this weight yet
  } catch (...) {
    gathering_.end_unit(unit);
    throw;
  }
}

void ShardedCopies::end_read(std::size_t number) noexcept { gathering_.end_unit(unit_to_read(number)); }

void ShardedCopies::agree() {
  are_wanted_.store(false, std::memory_order_relaxed);
  std::vector<std::uint8_t> wishes;
  for (Weight& weight : weights_) {
    wishes.push_back(static_cast<std::uint8_t>(weight.wish.exchange(Wish::Nothing, std::memory_order_relaxed)));
  }
  reduce_marks(communicator_, wishes);
  std::vector<bool> has_changed(with_.units.units.size(), false);
  for (std::size_t i = 0; i < count_; ++i) {
    Weight& weight = weights_[i];
    if (wishes[i] == static_cast<std::uint8_t>(Wish::Nothing)) continue;
    const bool wants_copy = wishes[i] == static_cast<std::uint8_t>(Wish::Copy);
    bool& is_so = wants_copy ? weight.has_copy : weight.is_read_itself;
    if (std::exchange(is_so, true)) continue;
    has_changed[with_.units.of[i]] = true;
    if (wants_copy) ++num_copies_;
  }
  for (std::size_t unit = 0; unit < has_changed.size(); ++unit) {
    if (has_changed[unit]) make_part(unit);
  }
  log_debug("fuse: {} of {} parameters are gathered in bf16", num_copies_, indices_.size());
}

void ShardedCopies::make_part(std::size_t unit) {
  std::vector<UnitPart::Entry> entries;
  for (const std::size_t index : with_.units.units[unit].buckets) {
    const FusedBucket& bucket = with_.buckets[index];
    for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
      const std::size_t i = bucket.parameters[place];
      if (with_.units.of[i] != unit) continue;
      const Weight& weight = weights_[i];
      const at::Tensor& parameter = with_.gradients.parameter(i);
      UnitPart::Entry entry{i, index, place, bucket.offsets[place], parameter.numel(), true, sizeof(std::uint16_t)};
      if (weight.has_copy) entries.push_back(entry);
      entry.is_copy = false;
      entry.element_size = parameter.element_size();
      if (!weight.has_copy || weight.is_read_itself) entries.push_back(entry);
    }
  }
  parts_.make(unit, std::move(entries));
  const UnitPart& part = parts_.part(unit);
  for (std::size_t k = 0; k < part.entries().size(); ++k) {
    const UnitPart::Entry& entry = part.entries()[k];
    if (!entry.is_copy) continue;
    weights_[entry.parameter].own_bits = reinterpret_cast<std::uint16_t*>(part.own_elements(k));
    round_again(entry.bucket, entry.place);
  }
}

std::vector<WeightCopy> ShardedCopies::targets(const FusedBucket& bucket) const {
  std::vector<WeightCopy> result;
  bool any = false;
  for (const std::size_t i : bucket.parameters) {
    result.push_back({weights_[i].own_bits, nullptr});
    any = any || weights_[i].own_bits != nullptr;
  }
  if (!any) result.clear();
  return result;
}

void ShardedCopies::round_again(std::size_t bucket, std::size_t place) {
  std::uint16_t* const bits = weights_[with_.buckets[bucket].parameters[place]].own_bits;
  const Region own = with_.shards.own_part(bucket, place);
  if (bits == nullptr || own.begin >= own.end) return;
  const std::int64_t offset = with_.buckets[bucket].offsets[place];
  const float* const from = static_cast<const float*>(with_.shards.owned_weights(bucket)) + offset;
  round_to_bfloat16(from, bits, static_cast<std::size_t>(own.begin - offset),
                    static_cast<std::size_t>(own.end - offset));
}

}  // namespace lockstep
