#include "lockstep/comm/broadcast_text.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {

std::string broadcast_text(Communicator& communicator, const std::string& text, int root) {
  if (communicator.world_size() == 1) return text;
  const c10::Device device(communicator.device_type());
  at::Tensor length = at::empty({1}, at::kLong);
  *length.data_ptr<std::int64_t>() = static_cast<std::int64_t>(text.size());
  length = length.to(device);
  communicator.broadcast(length, root);
  const std::int64_t size = length.cpu().data_ptr<std::int64_t>()[0];
  if (size == 0) return "";
  at::Tensor bytes = at::empty({size}, at::kByte);
  if (communicator.rank() == root) std::copy(text.begin(), text.end(), bytes.data_ptr<std::uint8_t>());
  bytes = bytes.to(device);
  communicator.broadcast(bytes, root);
  bytes = bytes.cpu();
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(size)};
}

}  // namespace lockstep
