#include "lockstep/data/tables/parquet/delta_numbers.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/data/tables/run_lengths.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

// How the differences are cut into pieces, each with a number of bits of its own.
struct DeltaLayout {
  std::size_t pieces = 0;   // of a block
  std::size_t numbers = 0;  // of a piece
};

DeltaLayout delta_layout(ByteReader& in) {
  constexpr std::uint64_t kMost = 1U << 30;
  const std::uint64_t block = in.varint(), pieces = in.varint();
  if (block == 0 || block > kMost || pieces == 0 || pieces > block || block % pieces != 0 || block / pieces % 8 != 0) {
    throw TableFault(fmt::format("its differences come in blocks of {} in {} pieces", block, pieces));
  }
  return {pieces, block / pieces};
}

// Appends the numbers that follow the last one by the differences of a block.
void decode_delta_block(ByteReader& in, const DeltaLayout& layout, std::size_t count,
                        std::vector<std::uint64_t>& numbers) {
  const auto least = static_cast<std::uint64_t>(in.zigzag());
  const std::string_view widths = in.take(layout.pieces);
  std::vector<std::uint64_t> packed;
  for (std::size_t piece = 0; piece < layout.pieces && numbers.size() < count; ++piece) {
    const auto bits = static_cast<std::uint8_t>(widths[piece]);
    if (bits > 64) throw TableFault(fmt::format("its differences have {} bits", bits));
    const std::size_t wanted = std::min(layout.numbers, count - numbers.size());
    const std::size_t needed = (wanted * bits + 7) / 8;
    // The last piece may be cut behind the numbers that count.
    const std::size_t whole = std::min(layout.numbers * bits / 8, in.left().size());
    packed.clear();
    unpack_bits(in.take(std::max(needed, whole)), bits, wanted, packed);
    for (const std::uint64_t difference : packed) numbers.push_back(numbers.back() + least + difference);
  }
}

}  // namespace

std::vector<std::uint64_t> decode_delta_numbers(ByteReader& in, std::size_t count) {
  std::vector<std::uint64_t> numbers;
  if (count == 0 && in.left().empty()) return numbers;
  const DeltaLayout layout = delta_layout(in);
  const std::uint64_t announced = in.varint();
  if (announced != count) throw TableFault(fmt::format("{} numbers belong there, and {} are there", count, announced));
  const auto first = static_cast<std::uint64_t>(in.zigzag());
  if (count > 0) numbers.push_back(first);
  while (numbers.size() < count) decode_delta_block(in, layout, count, numbers);
  return numbers;
}

}  // namespace lockstep
