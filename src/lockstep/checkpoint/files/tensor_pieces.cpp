#include "lockstep/checkpoint/files/tensor_pieces.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

std::string sort_pieces(const std::string& name, std::vector<TensorPiece>& pieces, std::int64_t count) {
  std::sort(pieces.begin(), pieces.end(), [](const TensorPiece& a, const TensorPiece& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::int64_t next = 0;
  for (const TensorPiece& piece : pieces) {
    if (piece.begin != next) {
      return fmt::format("elements {} to {} of \"{}\" are {}", std::min(next, piece.begin), std::max(next, piece.begin),
                         name, piece.begin > next ? "in no part" : "there twice");
    }
    next = piece.end;
  }
  if (next == count) return "";
  return fmt::format("elements {} to {} of \"{}\" are in no part", next, count, name);
}

std::int64_t elements_in(const std::vector<std::int64_t>& sizes) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;  // the others may overflow
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

}  // namespace lockstep
