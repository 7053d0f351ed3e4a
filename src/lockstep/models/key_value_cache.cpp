#include "lockstep/models/key_value_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace lockstep {
namespace {

constexpr std::int64_t kLeastRoom = 64;  // tokens

// Puts `rows` behind the first `length` tokens of `memory`, which becomes larger if it must.
at::Tensor append_rows(at::Tensor& memory, std::int64_t length, const at::Tensor& rows) {
  const std::int64_t whole = length + rows.size(1);
  if (!memory.defined() || memory.size(1) < whole) {
    std::vector<std::int64_t> sizes = rows.sizes().vec();
    sizes[1] = std::max({kLeastRoom, whole, 2 * length});
    const at::Tensor larger = at::empty(sizes, rows.options());
    if (memory.defined()) larger.narrow(1, 0, length).copy_(memory.narrow(1, 0, length));
    memory = larger;
  }
  memory.narrow(1, length, rows.size(1)).copy_(rows);
  return memory.narrow(1, 0, whole);
}

}  // namespace

KeyValueCache::Layer::KeysAndValues KeyValueCache::Layer::append(const at::Tensor& keys, const at::Tensor& values) {
  KeysAndValues all{append_rows(keys_, length_, keys), append_rows(values_, length_, values)};
  length_ += keys.size(1);
  return all;
}

KeyValueCache::Layer& KeyValueCache::layer(std::size_t index) {
  if (layers_.size() <= index) layers_.resize(index + 1);
  return layers_[index];
}

}  // namespace lockstep
