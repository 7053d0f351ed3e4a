#include "lockstep/data/idx.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/images/idx_reader.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<IdxType, at::ScalarType>, 6> kDtypes{{{IdxType::UInt8, at::kByte},
                                                                     {IdxType::Int8, at::kChar},
                                                                     {IdxType::Int16, at::kShort},
                                                                     {IdxType::Int32, at::kInt},
                                                                     {IdxType::Float32, at::kFloat},
                                                                     {IdxType::Float64, at::kDouble}}};

}  // namespace

at::Tensor read_idx(const std::string& path) {
  IdxReader reader(path);
  const auto* known =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& item) { return item.first == reader.type(); });
  at::Tensor tensor = at::empty(reader.sizes(), at::TensorOptions(known->second));
  reader.read_payload(static_cast<char*>(tensor.data_ptr()));
  return tensor;
}

void write_idx(const std::string& path, const at::Tensor& tensor) {
  const auto* known = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const auto& item) { return item.second == tensor.scalar_type(); });
  const bool fits = std::all_of(tensor.sizes().begin(), tensor.sizes().end(),
                                [](std::int64_t size) { return size <= std::numeric_limits<std::uint32_t>::max(); });
  if (known == kDtypes.end() || tensor.dim() < 1 || tensor.dim() > 255 || !fits) {
    throw Error(fmt::format("IDX cannot hold a tensor {} [{}]", c10::toString(tensor.scalar_type()),
                            fmt::join(tensor.sizes(), ", ")),
                path, "give 1 to 255 dimensions of uint8, int8, int16, int32, float32 or float64");
  }
  const at::Tensor rows = tensor.contiguous().cpu();
  std::string content{0, 0, static_cast<char>(known->first), static_cast<char>(tensor.dim())};
  for (const std::int64_t size : tensor.sizes()) {
    for (int shift = 24; shift >= 0; shift -= 8) content += static_cast<char>(size >> shift & 0xff);
  }
  const std::size_t header_bytes = content.size();
  content.append(static_cast<const char*>(rows.data_ptr()), rows.nbytes());
  swap_idx_bytes(content.data() + header_bytes, rows.nbytes(), rows.element_size());
  write_file_atomically(path, content);
}

}  // namespace lockstep
