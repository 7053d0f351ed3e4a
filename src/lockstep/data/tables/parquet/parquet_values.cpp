#include "lockstep/data/tables/parquet/parquet_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/data/files/inflate_limit.h"
#include "lockstep/data/tables/byte_reader.h"
#include "lockstep/data/tables/parquet/delta_numbers.h"
#include "lockstep/data/tables/run_lengths.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

constexpr std::array<const char*, 10> kEncodingNames{"PLAIN",
                                                     "1",
                                                     "PLAIN_DICTIONARY",
                                                     "RLE",
                                                     "BIT_PACKED",
                                                     "DELTA_BINARY_PACKED",
                                                     "DELTA_LENGTH_BYTE_ARRAY",
                                                     "DELTA_BYTE_ARRAY",
                                                     "RLE_DICTIONARY",
                                                     "BYTE_STREAM_SPLIT"};

[[noreturn]] void refuse_encoding(std::int64_t encoding) {
  const bool is_known = encoding >= 0 && encoding < static_cast<std::int64_t>(kEncodingNames.size());
  throw TableFault(
      fmt::format("values are written as {}, which is not read for this type",
                  is_known ? kEncodingNames[static_cast<std::size_t>(encoding)] : std::to_string(encoding)),
      "write the file again with the usual encodings, PLAIN and RLE_DICTIONARY");
}

std::size_t stored_bytes(const ParquetNode& node) {
  const auto type = static_cast<ParquetType>(node.physical_type);
  return type == ParquetType::Int32 || type == ParquetType::Float ? 4 : 8;
}

void require_values(std::size_t bytes, std::size_t width, std::size_t count) {
  if (bytes / width < count) {
    throw TableFault(fmt::format("{} values of {} bytes belong there, and {} bytes are there", count, width, bytes));
  }
}

std::vector<std::uint64_t> plain_numbers(std::string_view bytes, std::size_t width, std::size_t count) {
  require_values(bytes.size(), width, count);
  std::vector<std::uint64_t> numbers;
  numbers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(ByteReader::number_of(bytes.substr(i * width, width)));
  return numbers;
}

// The first bytes of all numbers, then the second ones, and so on.
std::vector<std::uint64_t> split_numbers(std::string_view bytes, std::size_t width, std::size_t count) {
  require_values(bytes.size(), width, count);
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < width * count; ++i) {
    numbers[i % count] |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << 8 * (i / count);
  }
  return numbers;
}

ValueList decode_numbers(std::string_view bytes, std::int64_t encoding, std::size_t count, const ParquetNode& node) {
  const auto type = static_cast<ParquetType>(node.physical_type);
  const bool is_whole = type == ParquetType::Int32 || type == ParquetType::Int64;
  const std::size_t width = stored_bytes(node);
  std::vector<std::uint64_t> numbers;
  if (encoding == static_cast<int>(ParquetEncoding::Plain)) {
    numbers = plain_numbers(bytes, width, count);
  } else if (encoding == static_cast<int>(ParquetEncoding::SplitBytes)) {
    numbers = split_numbers(bytes, width, count);
  } else if (encoding == static_cast<int>(ParquetEncoding::Delta) && is_whole) {
    ByteReader in(bytes);
    numbers = decode_delta_numbers(in, count);
  } else {
    refuse_encoding(encoding);
  }
  if (is_whole) return texts_of_numbers(numbers, bits_of_whole(node), is_signed_whole(node));
  return texts_of_fractions(numbers, static_cast<int>(width) * 8);
}

ValueList decode_booleans(std::string_view bytes, std::int64_t encoding, std::size_t count) {
  if (encoding == static_cast<int>(ParquetEncoding::Plain)) {
    require_values(bytes.size() * 8, 1, count);
    std::vector<std::uint64_t> bits;
    unpack_bits(bytes, 1, count, bits);
    return texts_of_booleans({bits.begin(), bits.end()});
  }
  if (encoding != static_cast<int>(ParquetEncoding::RunLengths)) refuse_encoding(encoding);
  ByteReader in(bytes);
  return texts_of_booleans(decode_run_lengths(in.take(in.fixed32()), 1, count));
}

ValueList plain_texts(const KeptBytes& bytes, std::size_t count) {
  ValueList list;
  list.keep(bytes.kept);
  ByteReader in(bytes.view);
  for (std::size_t i = 0; i < count; ++i) list.add_view(in.take(in.fixed32()));
  return list;
}

ValueList texts_by_length(const KeptBytes& bytes, std::size_t count) {
  ValueList list;
  list.keep(bytes.kept);
  ByteReader in(bytes.view);
  for (const std::uint64_t length : decode_delta_numbers(in, count)) list.add_view(in.take(length));
  return list;
}

// Each begins as the one before it.
ValueList texts_by_prefix(const KeptBytes& bytes, std::size_t count) {
  const std::size_t most = most_inflated_bytes(bytes.view.size());
  ByteReader in(bytes.view);
  const std::vector<std::uint64_t> prefixes = decode_delta_numbers(in, count);
  const ValueList suffixes = texts_by_length({in.left(), bytes.kept}, count);
  std::string texts;
  std::vector<std::size_t> ends;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t last = texts.size();
    if (prefixes[i] > last - begin) throw TableFault("a text begins with more of the text before it than that has");
    if (last + prefixes[i] + suffixes[i].size() > most) {
      throw TableFault(fmt::format("the texts of a piece have more than {} bytes", most),
                       fmt::format("raise {}, if they are to be that large", kInflateLimitVariable));
    }
    texts.append(texts, begin, prefixes[i]).append(suffixes[i]);
    ends.push_back(texts.size());
    begin = last;
  }
  ValueList list;
  list.add_own(std::move(texts), ends);
  return list;
}

ValueList decode_texts(const KeptBytes& bytes, std::int64_t encoding, std::size_t count) {
  switch (static_cast<ParquetEncoding>(encoding)) {
    case ParquetEncoding::Plain:
      return plain_texts(bytes, count);
    case ParquetEncoding::DeltaLengths:
      return texts_by_length(bytes, count);
    case ParquetEncoding::DeltaTexts:
      return texts_by_prefix(bytes, count);
    default:
      refuse_encoding(encoding);
  }
}

}  // namespace

ValueList decode_values(const KeptBytes& bytes, std::int64_t encoding, std::size_t count, const ParquetNode& node) {
  if (count == 0) return {};
  switch (static_cast<ParquetType>(node.physical_type)) {
    case ParquetType::Boolean:
      return decode_booleans(bytes.view, encoding, count);
    case ParquetType::ByteArray:
      return decode_texts(bytes, encoding, count);
    default:
      return decode_numbers(bytes.view, encoding, count, node);
  }
}

std::vector<std::uint32_t> decode_places(std::string_view bytes, std::size_t count, std::size_t size) {
  if (count == 0) return {};
  ByteReader in(bytes);
  const int bits = in.byte();
  std::vector<std::uint32_t> places = decode_run_lengths(in.left(), bits, count);
  if (*std::max_element(places.begin(), places.end()) >= size) {
    throw TableFault(fmt::format("a value is not among the {} of its dictionary", size));
  }
  return places;
}

}  // namespace lockstep
