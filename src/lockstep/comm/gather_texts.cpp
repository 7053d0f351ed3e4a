#include "lockstep/comm/gather_texts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace lockstep {
namespace {

at::Tensor on_device_of(const Communicator& communicator, const at::Tensor& tensor) {
  return tensor.to(c10::Device(communicator.device_type()));
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  if (communicator.world_size() == 1) return {text};
  const std::int64_t size = communicator.world_size();
  at::Tensor mine = at::empty({1}, at::kLong);
  mine.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(text.size());
  at::Tensor lengths = on_device_of(communicator, at::empty({size}, at::kLong));
  communicator.all_gather(lengths, on_device_of(communicator, mine));
  lengths = lengths.cpu();
  const std::int64_t* const length = lengths.data_ptr<std::int64_t>();
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  const std::int64_t longest = *std::max_element(length, length + size);
  if (longest == 0) return texts;
  at::Tensor padded = at::zeros({longest}, at::kByte);
  if (!text.empty()) std::memcpy(padded.data_ptr(), text.data(), text.size());
  at::Tensor bytes = on_device_of(communicator, at::empty({size * longest}, at::kByte));
  communicator.all_gather(bytes, on_device_of(communicator, padded));
  bytes = bytes.cpu();
  const auto* const first = static_cast<const char*>(bytes.data_ptr());
  for (std::int64_t rank = 0; rank < size; ++rank) {
    texts[static_cast<std::size_t>(rank)].assign(first + rank * longest, static_cast<std::size_t>(length[rank]));
  }
  return texts;
}

}  // namespace lockstep
