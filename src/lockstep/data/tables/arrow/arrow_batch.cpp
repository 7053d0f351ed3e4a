#include "lockstep/data/tables/arrow/arrow_batch.h"

#include <fmt/format.h>

#include <numeric>

#include "lockstep/data/tables/byte_reader.h"
#include "lockstep/data/tables/page_codec.h"
#include "lockstep/data/tables/run_lengths.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

constexpr int kNodes = 1, kBuffers = 2, kCompression = 3, kViews = 4;  // of the table RecordBatch
constexpr std::size_t kStructBytes = 16;                               // of a node, and of a buffer's place

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t width) {
  return ByteReader::number_of(bytes.substr(at * width, width));
}

void require_bytes(std::string_view bytes, std::size_t count) {
  if (bytes.size() < count) {
    throw TableFault(fmt::format("{} bytes of values belong there, and {} are there", count, bytes.size()));
  }
}

std::vector<std::uint64_t> numbers_in(std::string_view bytes, int bits, std::size_t count) {
  const auto width = static_cast<std::size_t>(bits) / 8;
  require_bytes(bytes, count * width);
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = number_at(bytes, i, width);
  return numbers;
}

ValueList texts_between(const KeptBytes& offsets, const KeptBytes& bytes, std::size_t width, std::size_t count) {
  ValueList list;
  list.keep(bytes.kept);
  if (count == 0) return list;
  require_bytes(offsets.view, (count + 1) * width);
  std::uint64_t begin = number_at(offsets.view, 0, width);
  for (std::size_t i = 1; i <= count; ++i) {
    const std::uint64_t end = number_at(offsets.view, i, width);
    if (end < begin || end > bytes.view.size()) throw TableFault("a text ends before it begins, or behind all texts");
    list.add_view(bytes.view.substr(begin, end - begin));
    begin = end;
  }
  return list;
}

}  // namespace

// The variadic buffers of views before the column are counted by the batch.
std::size_t ArrowBatch::first_buffer(const ArrowField& field) const {
  if (field.views_before == 0) return field.buffer;
  const std::string_view counts = batch_.structs(kViews, 8);
  if (counts.size() / 8 < field.views_before) throw TableFault("a batch does not say how many buffers its views have");
  std::size_t more = 0;
  for (std::size_t i = 0; i < field.views_before; ++i) more += number_at(counts, i, 8);
  return field.buffer + more;
}

std::size_t ArrowBatch::require_rows(std::size_t node) const {
  const std::string_view nodes = batch_.structs(kNodes, kStructBytes);
  if (node >= nodes.size() / kStructBytes) throw TableFault("a batch has fewer columns than the file");
  if (number_at(nodes, 2 * node, 8) != static_cast<std::uint64_t>(rows())) {
    throw TableFault("a column has another number of values than its batch");
  }
  return static_cast<std::size_t>(rows());
}

KeptBytes ArrowBatch::buffer(std::size_t index) const {
  const std::string_view places = batch_.structs(kBuffers, kStructBytes);
  if (index >= places.size() / kStructBytes) throw TableFault("a batch has fewer buffers than its columns need");
  const std::uint64_t begin = number_at(places, 2 * index, 8), count = number_at(places, 2 * index + 1, 8);
  if (begin > body_.size() || count > body_.size() - begin) throw TableFault("a buffer lies outside of its batch");
  const std::string_view bytes = body_.substr(begin, count);
  const auto compression = batch_.table(kCompression);
  if (!compression || bytes.empty()) return {bytes, nullptr};
  if (compression->number<std::int8_t>(0, 0) != 1) {
    throw TableFault("it is compressed by LZ4, which is not read", "write it again with zstd, or without compression");
  }
  ByteReader in(bytes);
  const auto size = static_cast<std::int64_t>(in.fixed64());
  if (size == -1) return {in.left(), nullptr};  // it would not have become smaller
  const auto content = inflate_page(PageCodec::Zstd, in.left(), static_cast<std::size_t>(size));
  return {*content, content};
}

std::vector<std::uint32_t> ArrowBatch::validity(std::size_t index, std::size_t rows) const {
  const KeptBytes bits = buffer(index);
  if (bits.view.empty()) return std::vector<std::uint32_t>(rows, 1);
  require_bytes(bits.view, (rows + 7) / 8);
  std::vector<std::uint64_t> valid;
  unpack_bits(bits.view, 1, rows, valid);
  return {valid.begin(), valid.end()};
}

ValueList ArrowBatch::decode(const ArrowLayout& layout, std::size_t index, std::size_t rows) const {
  const KeptBytes bytes = buffer(index);
  switch (layout.type) {
    case ArrowType::Utf8:
      return texts_between(bytes, buffer(index + 1), 4, rows);
    case ArrowType::LargeUtf8:
      return texts_between(bytes, buffer(index + 1), 8, rows);
    case ArrowType::Int:
      return texts_of_numbers(numbers_in(bytes.view, layout.bits, rows), layout.bits, layout.is_signed);
    case ArrowType::FloatingPoint:
      return texts_of_fractions(numbers_in(bytes.view, layout.bits, rows), layout.bits);
    case ArrowType::Bool: {
      require_bytes(bytes.view, (rows + 7) / 8);
      std::vector<std::uint64_t> bits;
      unpack_bits(bytes.view, 1, rows, bits);
      return texts_of_booleans({bits.begin(), bits.end()});
    }
    default:
      throw TableFault("a column has a type that is not read");
  }
}

ColumnBlock ArrowBatch::block(const ArrowLayout& layout, std::size_t node, std::size_t index) const {
  const std::size_t rows = require_rows(node);
  std::vector<std::uint32_t> entries = validity(index, rows);
  std::uint32_t row = 0;
  for (std::uint32_t& entry : entries) entry = entry == 1 ? row++ : (++row, ColumnBlock::kNull);
  return {std::move(entries), std::make_shared<ValueList>(decode(layout, index + 1, rows))};
}

ColumnBlock ArrowBatch::values(const ArrowField& field) const { return block(field.values, 0, 0); }

ColumnBlock ArrowBatch::column(const ArrowField& field, const ColumnBlock* dictionary) const {
  const std::size_t first = first_buffer(field);
  if (dictionary == nullptr) return block(field.values, field.node, first);
  const std::size_t rows = require_rows(field.node);
  std::vector<std::uint32_t> entries = validity(first, rows);
  const std::vector<std::uint64_t> places = numbers_in(buffer(first + 1).view, field.places.bits, rows);
  for (std::size_t row = 0; row < rows; ++row) {
    if (entries[row] == 1 && places[row] >= dictionary->rows()) throw TableFault("a value is not in its dictionary");
    entries[row] = entries[row] == 1 ? dictionary->entry(places[row]) : ColumnBlock::kNull;
  }
  return {std::move(entries), dictionary->values()};
}

}  // namespace lockstep
