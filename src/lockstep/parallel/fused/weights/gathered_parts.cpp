#include "lockstep/parallel/fused/weights/gathered_parts.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

GatheredParts::GatheredParts(ReadWatcher& watcher, const Needs& needs)
    : watcher_(watcher),
      with_(needs),
      count_(needs.gradients.num_parameters()),
      weights_(count_),
      parts_(needs.units.units.size()),
      of_host_(parts_.size()),
      rounded_(2 * parts_.size()) {
  for (std::size_t bucket = 0; bucket < with_.buckets.size(); ++bucket) {
    for (std::size_t place = 0; place < with_.buckets[bucket].parameters.size(); ++place) {
      const std::size_t i = with_.buckets[bucket].parameters[place];
      const at::Tensor& parameter = with_.gradients.parameter(i);
      Weight& weight = weights_[i];
      weight.bucket = bucket;
      weight.place = place;
      if (parameter.scalar_type() != at::kFloat) continue;
      const std::int64_t numel = std::max<std::int64_t>(1, parameter.numel());
      weight.copy_memory = std::make_unique<WatchedMemory>(watcher_, count_ + i, numel, at::kBFloat16);
      weight.copy = weight.copy_memory->view_of_all(parameter);
    }
  }
}

void GatheredParts::make(std::size_t unit, std::vector<UnitPart::Entry> entries) {
  if (parts_[unit]) with_.bytes.take(parts_[unit]->kept_bytes());
  parts_[unit] = std::make_unique<UnitPart>(std::move(entries), with_.plan, with_.rank);
  with_.bytes.add(parts_[unit]->kept_bytes());
  const std::vector<UnitPart::Entry>& all = parts_[unit]->entries();
  for (const UnitPart::Entry& entry : all) weights_[entry.parameter].is_in_part = false;
  for (const UnitPart::Entry& entry : all) {
    if (!entry.is_copy) weights_[entry.parameter].is_in_part = true;
  }
  for (const UnitPart::Entry& entry : all) make_memory(entry.parameter);
  if (with_.engine != nullptr) make_memory_of_host(unit);
}

// Tensors over memory that is gathered no more, which an earlier graph has saved, are an Error when they are read.
void GatheredParts::make_memory(std::size_t i) {
  Weight& weight = weights_[i];
  if (!weight.is_in_part) {
    weight.memory.reset();
    weight.view = at::Tensor();
  } else if (with_.engine == nullptr && !weight.memory) {
    const at::Tensor& parameter = with_.gradients.parameter(i);
    const std::int64_t numel = std::max<std::int64_t>(1, parameter.numel());
    weight.memory = std::make_unique<WatchedMemory>(watcher_, i, numel, parameter.scalar_type());
    weight.view = weight.memory->view_of_all(parameter);
    weight.elements = weight.memory->data();
  }
}

// One piece for all that the part brings, and for all ranks of a host. Collective.
void GatheredParts::make_memory_of_host(std::size_t unit) {
  const UnitPart& part = *parts_[unit];
  of_host_[unit] = std::make_unique<WatchedMemory>(
      watcher_, 3 * count_ + unit,
      with_.engine->allocate_transient_for_host(part.all_messages_bytes(), at::kByte, part.layout()));
  const WatchedMemory& memory = *of_host_[unit];
  for (std::size_t k = 0; k < part.entries().size(); ++k) {
    const UnitPart::Entry& entry = part.entries()[k];
    Weight& weight = weights_[entry.parameter];
    const at::Tensor& parameter = with_.gradients.parameter(entry.parameter);
    const at::ScalarType dtype = entry.is_copy ? at::kBFloat16 : parameter.scalar_type();
    std::byte* const elements = memory.data() + part.place(k);
    const at::Tensor like = at::from_blob(elements, parameter.sizes(), at::TensorOptions().dtype(dtype));
    const at::Tensor view = memory.view(static_cast<std::int64_t>(part.place(k) / entry.element_size), like);
    if (entry.is_copy) {
      weight.copy_memory.reset();
      weight.copy = view;
    } else {
      weight.view = view;
      weight.elements = elements;
    }
  }
}

WatchedMemory& GatheredParts::memory_of(const UnitPart::Entry& entry) {
  Weight& weight = weights_[entry.parameter];
  return entry.is_copy ? *weight.copy_memory : *weight.memory;
}

void GatheredParts::start(std::size_t unit, Communicator& group) {
  UnitPart& part = *parts_[unit];
  with_.bytes.add(part.passing_bytes());
  for (std::size_t k = 0; k < part.entries().size(); ++k) {
    const UnitPart::Entry& entry = part.entries()[k];
    const UnitPart::Piece& piece = part.own_piece(k);
    if (entry.is_copy || piece.begin == piece.end) continue;
    const auto* const shard = static_cast<const std::byte*>(with_.shards.owned_weights(entry.bucket));
    const auto begin = static_cast<std::size_t>(piece.begin), end = static_cast<std::size_t>(piece.end);
    std::memcpy(part.own_elements(k) + begin * entry.element_size,
                shard + (static_cast<std::size_t>(entry.offset) + begin) * entry.element_size,
                (end - begin) * entry.element_size);
  }
  if (with_.engine != nullptr) {
    of_host_[unit]->open();
    with_.bytes.add(static_cast<std::int64_t>(part.bytes()));
    part.start_into(group, of_host_[unit]->incoming());
  } else {
    part.start(group);
    with_.bytes.add(part.received_bytes());
  }
}

void GatheredParts::open_entries(std::size_t unit) {
  UnitPart& part = *parts_[unit];
  std::vector<std::byte*> memory;
  for (const UnitPart::Entry& entry : part.entries()) {
    memory_of(entry).open();
    memory.push_back(memory_of(entry).data());
    with_.bytes.add(static_cast<std::int64_t>(memory_of(entry).whole().nbytes()));
  }
  with_.bytes.note_peak();
  const std::int64_t received = part.received_bytes();
  part.unpack(memory);
  with_.bytes.take(received);
}

void GatheredParts::close_entries(std::size_t unit) {
  for (const UnitPart::Entry& entry : parts_[unit]->entries()) {
    WatchedMemory& memory = memory_of(entry);
    memory.close();
    with_.bytes.take(static_cast<std::int64_t>(memory.whole().nbytes()));
  }
}

void GatheredParts::finish(std::size_t unit) {
  parts_[unit]->wait();
  with_.bytes.take(parts_[unit]->passing_bytes());
  if (with_.engine == nullptr) open_entries(unit);
  for (const UnitPart::Entry& entry : parts_[unit]->entries()) {
    Weight& weight = weights_[entry.parameter];
    if (!entry.is_copy) with_.shards.show(entry.bucket, entry.place, weight.view, weight.sample);
  }
}

void GatheredParts::close(std::size_t unit) {
  for (const UnitPart::Entry& entry : parts_[unit]->entries()) {
    if (!entry.is_copy) with_.shards.hide(entry.bucket, entry.place, shown(entry.parameter));
  }
  if (with_.engine == nullptr) return close_entries(unit);
  of_host_[unit]->close();
  with_.bytes.take(static_cast<std::int64_t>(parts_[unit]->bytes()));
}

// In a part, or with its bucket.
const std::byte* GatheredParts::elements_of(std::size_t parameter) const {
  const Weight& weight = weights_[parameter];
  return weight.is_in_part ? weight.elements : with_.shards.shown(weight.bucket, weight.place).elements;
}

void GatheredParts::round(std::size_t parameter, std::size_t number) {
  const std::lock_guard<std::mutex> lock(rounding_);
  WatchedMemory& memory = *weights_[parameter].copy_memory;
  if (memory.is_open()) return;
  memory.open();
  rounded_[number].push_back(parameter);
  with_.bytes.add(static_cast<std::int64_t>(memory.whole().nbytes()));
  const std::int64_t numel = with_.gradients.parameter(parameter).numel();
  round_to_bfloat16(reinterpret_cast<const float*>(elements_of(parameter)),
                    reinterpret_cast<std::uint16_t*>(memory.data()), 0, static_cast<std::size_t>(numel));
  with_.bytes.note_peak();
}

void GatheredParts::close_rounded(std::size_t number) {
  for (const std::size_t parameter : std::exchange(rounded_[number], {})) {
    WatchedMemory& memory = *weights_[parameter].copy_memory;
    memory.close();
    with_.bytes.take(static_cast<std::int64_t>(memory.whole().nbytes()));
  }
}

}  // namespace lockstep
