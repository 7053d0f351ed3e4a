#include "lockstep/comm/transient_memory.h"

#include <algorithm>
#include <cstring>

namespace lockstep {

void GatherLayout::put(int rank, const std::byte* message, std::size_t begin, std::size_t bytes,
                       std::byte* memory) const {
  for (const Piece& piece : pieces[static_cast<std::size_t>(rank)]) {
    const std::size_t first = std::max(begin, piece.from);
    const std::size_t last = std::min(begin + bytes, piece.from + piece.bytes);
    if (first < last) std::memcpy(memory + piece.to + (first - piece.from), message + (first - begin), last - first);
  }
}

}  // namespace lockstep
