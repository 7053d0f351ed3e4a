#include "lockstep/parallel/fused/weights/sharded_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/reduce_marks.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"

namespace lockstep {

ShardedCopies::ShardedCopies(const Parts& parts)
    : with_(parts),
      count_(parts.gradients.num_parameters()),
      weights_(count_),
      parts_(parts.units.units.size()),
      of_host_(parts.units.units.size()),
      rounded_(2 * parts_.size()) {
  std::vector<at::Tensor> offered;
  for (std::size_t bucket = 0; bucket < with_.buckets.size(); ++bucket) {
    for (std::size_t place = 0; place < with_.buckets[bucket].parameters.size(); ++place) {
      const std::size_t i = with_.buckets[bucket].parameters[place];
      const at::Tensor& parameter = with_.gradients.parameter(i);
      Weight& weight = weights_[i];
      weight.is_fused = true;
      weight.bucket = bucket;
      weight.place = place;
      if (parameter.scalar_type() != at::kFloat) continue;
      const std::int64_t numel = std::max<std::int64_t>(1, parameter.numel());
      weight.copy_memory = std::make_unique<WatchedMemory>(*this, count_ + i, numel, at::kBFloat16);
      weight.copy = weight.copy_memory->view_of_all(parameter);
      offered.push_back(parameter);
      indices_.emplace(parameter.unsafeGetTensorImpl(), i);
    }
  }
  offer_.emplace(offered, *this);
}

std::size_t ShardedCopies::parameter_at(std::size_t memory, std::int64_t element) const {
  if (memory < 3 * count_) return memory;
  const UnitPart& part = *parts_[memory - 3 * count_];
  const UnitPart::Entry& entry = part.entries()[part.entry_at(static_cast<std::size_t>(element))];
  return entry.is_copy ? count_ + entry.parameter : entry.parameter;
}

at::Tensor ShardedCopies::current_copy(const at::Tensor& parameter) {
  const auto found = indices_.find(parameter.unsafeGetTensorImpl());
  if (found == indices_.end() || !is_watched(parameter)) return {};  // the program has moved it
  Weight& weight = weights_[found->second];
  if (!weight.has_copy) wish(found->second, Wish::Copy);
  return is_absent(parameter) ? weight.copy : at::Tensor();
}

void ShardedCopies::wish(std::size_t parameter, Wish what) {
  weights_[parameter].wish.store(what, std::memory_order_relaxed);
  are_wanted_.store(true, std::memory_order_relaxed);
}

bool ShardedCopies::is_in_part_itself(std::size_t parameter) const {
  const Weight& weight = weights_[parameter];
  return has_part(with_.units.of[parameter]) && (!weight.has_copy || weight.is_read_itself);
}

// Depends on what the ranks have agreed on, and not on what is in memory: `end_read` must find the same unit.
std::size_t ShardedCopies::unit_to_read(std::size_t number) const {
  const std::size_t parameter = number % count_;
  const std::size_t unit = with_.units.of[parameter];
  const bool is_in_part = kind_of(number) != Kind::Absent || is_in_part_itself(parameter);
  return is_in_part ? unit : with_.weights.whole_of(unit);
}

void ShardedCopies::begin_read(std::size_t number) {
  const std::size_t parameter = number % count_;
  const std::size_t unit = unit_to_read(number);
  const Weight& weight = weights_[parameter];
  if (kind_of(number) == Kind::Absent && weight.has_copy && !weight.is_read_itself) wish(parameter, Wish::Itself);
  with_.weights.begin_unit(unit, parameter);
  if (kind_of(number) != Kind::Copy || weight.has_copy) return;
  try {
    round_here(parameter, unit);
  } catch (...) {
    with_.weights.end_unit(unit);
    throw;
  }
}

void ShardedCopies::end_read(std::size_t number) noexcept { with_.weights.end_unit(unit_to_read(number)); }

// In a part, or with its bucket.
const std::byte* ShardedCopies::elements_of(std::size_t parameter) const {
  const Weight& weight = weights_[parameter];
  if (is_in_part_itself(parameter)) return weight.elements;
  const FusedBucket& bucket = with_.buckets[weight.bucket];
  return static_cast<const std::byte*>(bucket.weights.data_ptr()) +
         static_cast<std::size_t>(bucket.offsets[weight.place]) * bucket.weights.element_size();
}

// The ranks have not agreed on a copy of this weight yet. Evaluations may read it in several threads.
void ShardedCopies::round_here(std::size_t parameter, std::size_t unit) {
  const std::lock_guard<std::mutex> lock(rounding_);
  Weight& weight = weights_[parameter];
  if (weight.copy_memory->is_open()) return;
  weight.copy_memory->open();
  rounded_[unit].push_back(parameter);
  bytes_ += static_cast<std::int64_t>(weight.copy_memory->whole().nbytes());
  const std::int64_t numel = with_.gradients.parameter(parameter).numel();
  round_to_bfloat16(reinterpret_cast<const float*>(elements_of(parameter)),
                    reinterpret_cast<std::uint16_t*>(weight.copy_memory->data()), 0, static_cast<std::size_t>(numel));
  with_.weights.note_peak();
}

void ShardedCopies::close_rounded(std::size_t number) {
  for (const std::size_t parameter : std::exchange(rounded_[number], {})) {
    WatchedMemory& memory = *weights_[parameter].copy_memory;
    memory.close();
    bytes_ -= static_cast<std::int64_t>(memory.whole().nbytes());
  }
}

void ShardedCopies::agree() {
  are_wanted_.store(false, std::memory_order_relaxed);
  std::vector<std::uint8_t> wishes;
  for (Weight& weight : weights_) {
    wishes.push_back(static_cast<std::uint8_t>(weight.wish.exchange(Wish::Nothing, std::memory_order_relaxed)));
  }
  reduce_marks(with_.communicator, wishes);
  std::vector<bool> has_changed(parts_.size(), false);
  for (std::size_t i = 0; i < count_; ++i) {
    Weight& weight = weights_[i];
    if (wishes[i] == static_cast<std::uint8_t>(Wish::Nothing)) continue;
    const bool wants_copy = wishes[i] == static_cast<std::uint8_t>(Wish::Copy);
    bool& is_so = wants_copy ? weight.has_copy : weight.is_read_itself;
    if (std::exchange(is_so, true)) continue;
    has_changed[with_.units.of[i]] = true;
    if (wants_copy) ++num_copies_;
  }
  for (std::size_t unit = 0; unit < parts_.size(); ++unit) {
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
      UnitPart::Entry entry{i, index, bucket.offsets[place], parameter.numel(), true, sizeof(std::uint16_t)};
      if (weight.has_copy) entries.push_back(entry);
      entry.is_copy = false;
      entry.element_size = parameter.element_size();
      if (!weight.has_copy || weight.is_read_itself) entries.push_back(entry);
    }
  }
  if (parts_[unit]) bytes_ -= parts_[unit]->kept_bytes();
  parts_[unit] = std::make_unique<UnitPart>(std::move(entries), with_.plan, with_.communicator.rank());
  bytes_ += parts_[unit]->kept_bytes();
  for (std::size_t i = 0; i < count_; ++i) {
    if (weights_[i].is_fused && with_.units.of[i] == unit) make_memory(i);
  }
  if (with_.engine != nullptr) make_memory_of_host(unit);
  const std::vector<UnitPart::Entry>& all = parts_[unit]->entries();
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (!all[k].is_copy) continue;
    weights_[all[k].parameter].own_bits = reinterpret_cast<std::uint16_t*>(parts_[unit]->own_elements(k));
    round_again(all[k].parameter);
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

void ShardedCopies::round_again(std::size_t parameter) {
  const Weight& weight = weights_[parameter];
  if (weight.own_bits == nullptr) return;
  const FusedBucket& bucket = with_.buckets[weight.bucket];
  const std::int64_t offset = bucket.offsets[weight.place];
  const Region own = with_.weights.own_part(weight.bucket, weight.place);
  if (own.begin >= own.end) return;
  const float* const from = static_cast<const float*>(with_.weights.owned_weights(weight.bucket)) + offset;
  round_to_bfloat16(from, weight.own_bits, static_cast<std::size_t>(own.begin - offset),
                    static_cast<std::size_t>(own.end - offset));
}

}  // namespace lockstep
