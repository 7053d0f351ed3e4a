#include "lockstep/data/tables/run_lengths.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/data/tables/byte_reader.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {

void unpack_bits(std::string_view bytes, int bits, std::size_t count, std::vector<std::uint64_t>& out) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t number = 0;
    for (int got = 0; got < bits;) {
      const auto in_byte = static_cast<int>(at % 8);
      const int taken = std::min(8 - in_byte, bits - got);
      const auto byte = static_cast<std::uint8_t>(bytes[at / 8]);
      number |= (std::uint64_t{byte} >> in_byte & ((1U << taken) - 1)) << got;
      got += taken;
      at += static_cast<std::size_t>(taken);
    }
    out.push_back(number);
  }
}

std::vector<std::uint32_t> decode_run_lengths(std::string_view bytes, int bits, std::size_t count) {
  if (bits < 0 || bits > 32) throw TableFault(fmt::format("its numbers have {} bits", bits));
  if (bits == 0) return std::vector<std::uint32_t>(count, 0);
  std::vector<std::uint32_t> out;
  std::vector<std::uint64_t> packed;
  ByteReader in(bytes);
  const auto width = static_cast<std::size_t>(bits);
  while (out.size() < count) {
    const std::uint64_t header = in.varint();
    const std::uint64_t length = header >> 1;
    const std::size_t wanted = count - out.size();
    if ((header & 1) == 0) {
      const auto value = static_cast<std::uint32_t>(ByteReader::number_of(in.take((width + 7) / 8)));
      if (length == 0) throw TableFault("a run of equal numbers has none");
      out.insert(out.end(), std::min<std::uint64_t>(length, wanted), value);
      continue;
    }
    // Pieces of 8 numbers. The last one may be cut behind the numbers that count.
    if (length == 0) throw TableFault("a run of packed numbers has none");
    const std::size_t numbers = std::min<std::uint64_t>(std::min<std::uint64_t>(length, count) * 8, wanted);
    const std::uint64_t whole = std::min<std::uint64_t>(length, in.left().size()) * width;
    const std::size_t needed = (numbers * width + 7) / 8;
    const std::string_view piece = in.take(std::max<std::size_t>(needed, std::min(whole, in.left().size())));
    packed.clear();
    unpack_bits(piece, bits, numbers, packed);
    for (const std::uint64_t number : packed) out.push_back(static_cast<std::uint32_t>(number));
  }
  return out;
}

}  // namespace lockstep
