// ShardedCopies: the memory to which parts of units come, for each rank or for all ranks of a host.
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "lockstep/parallel/fused/weights/sharded_copies.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"

namespace lockstep {

// Tensors over memory that is gathered no more, which an earlier graph has saved, are an Error when they are read.
void ShardedCopies::make_memory(std::size_t i) {
  Weight& weight = weights_[i];
  if (!is_in_part_itself(i)) {
    weight.memory.reset();
    weight.view = at::Tensor();
  } else if (with_.engine == nullptr && !weight.memory) {
    const at::Tensor& parameter = with_.gradients.parameter(i);
    const std::int64_t numel = std::max<std::int64_t>(1, parameter.numel());
    weight.memory = std::make_unique<WatchedMemory>(*this, i, numel, parameter.scalar_type());
    weight.view = weight.memory->view_of_all(parameter);
    weight.elements = weight.memory->data();
  }
}

// One piece for all that the part brings, and for all ranks of a host. Collective.
void ShardedCopies::make_memory_of_host(std::size_t unit) {
  const UnitPart& part = *parts_[unit];
  of_host_[unit] = std::make_unique<WatchedMemory>(
      *this, 3 * count_ + unit,
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

WatchedMemory& ShardedCopies::memory_of(const UnitPart::Entry& entry) {
  Weight& weight = weights_[entry.parameter];
  return entry.is_copy ? *weight.copy_memory : *weight.memory;
}

void ShardedCopies::start(std::size_t unit, Communicator& group) {
  UnitPart& part = *parts_[unit];
  bytes_ += part.passing_bytes();
  for (std::size_t k = 0; k < part.entries().size(); ++k) {
    const UnitPart::Entry& entry = part.entries()[k];
    const UnitPart::Piece& piece = part.own_piece(k);
    if (entry.is_copy || piece.begin == piece.end) continue;
    const auto* const shard = static_cast<const std::byte*>(with_.weights.owned_weights(entry.bucket));
    const auto begin = static_cast<std::size_t>(piece.begin), end = static_cast<std::size_t>(piece.end);
    std::memcpy(part.own_elements(k) + begin * entry.element_size,
                shard + (static_cast<std::size_t>(entry.offset) + begin) * entry.element_size,
                (end - begin) * entry.element_size);
  }
  if (with_.engine != nullptr) {
    of_host_[unit]->open();
    bytes_ += static_cast<std::int64_t>(part.bytes());
    part.start_into(group, of_host_[unit]->incoming());
  } else {
    part.start(group);
    bytes_ += part.received_bytes();
  }
}

void ShardedCopies::open_entries(std::size_t unit) {
  UnitPart& part = *parts_[unit];
  std::vector<std::byte*> memory;
  for (const UnitPart::Entry& entry : part.entries()) {
    memory_of(entry).open();
    memory.push_back(memory_of(entry).data());
    bytes_ += static_cast<std::int64_t>(memory_of(entry).whole().nbytes());
  }
  with_.weights.note_peak();
  const std::int64_t received = part.received_bytes();
  part.unpack(memory);
  bytes_ -= received;
}

void ShardedCopies::close_entries(std::size_t unit) {
  for (const UnitPart::Entry& entry : parts_[unit]->entries()) {
    WatchedMemory& memory = memory_of(entry);
    memory.close();
    bytes_ -= static_cast<std::int64_t>(memory.whole().nbytes());
  }
}

void ShardedCopies::finish(std::size_t unit) {
  parts_[unit]->wait();
  bytes_ -= parts_[unit]->passing_bytes();
  if (with_.engine == nullptr) open_entries(unit);
  for (const UnitPart::Entry& entry : parts_[unit]->entries()) {
    Weight& weight = weights_[entry.parameter];
    if (!entry.is_copy) with_.weights.show(weight.bucket, weight.place, weight.view, weight.sample);
  }
}

void ShardedCopies::close(std::size_t unit) {
  for (const UnitPart::Entry& entry : parts_[unit]->entries()) {
    Weight& weight = weights_[entry.parameter];
    if (!entry.is_copy) with_.weights.hide(weight.bucket, weight.place, {weight.view, weight.sample, weight.elements});
  }
  if (with_.engine == nullptr) return close_entries(unit);
  of_host_[unit]->close();
  bytes_ -= static_cast<std::int64_t>(parts_[unit]->bytes());
}

}  // namespace lockstep
