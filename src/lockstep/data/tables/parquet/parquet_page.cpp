#include "lockstep/data/tables/parquet/parquet_page.h"

#include <fmt/format.h>
#include <zlib.h>

#include "lockstep/data/tables/byte_reader.h"
#include "lockstep/data/tables/parquet/compact_reader.h"
#include "lockstep/data/tables/run_lengths.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

// Every size and number of a page is a number of 31 bits.
std::int64_t page_number(CompactReader& in) {
  const std::int64_t number = in.integer();
  if (number < 0 || number > 0x7FFFFFFF) throw TableFault(fmt::format("a page announces {} values or bytes", number));
  return number;
}

void read_page_v1(CompactReader& in, ParquetPage& page) {
  in.read_struct([&](std::int32_t id) {
    if (id == 1) page.values = page_number(in);
    if (id == 2) page.encoding = in.integer();
    if (id == 3) page.level_encoding = in.integer();
  });
}

void read_page_v2(CompactReader& in, ParquetPage& page) {
  in.read_struct([&](std::int32_t id) {
    if (id == 1) page.values = page_number(in);
    if (id == 4) page.encoding = in.integer();
    if (id == 5) page.level_bytes = static_cast<std::size_t>(page_number(in));
    if (id == 6) page.repetition_bytes = static_cast<std::size_t>(page_number(in));
    if (id == 7) page.is_compressed = in.boolean();
  });
}

void read_dictionary_page(CompactReader& in, ParquetPage& page) {
  in.read_struct([&](std::int32_t id) {
    if (id == 1) page.values = page_number(in);
    if (id == 2) page.encoding = in.integer();
  });
}

std::size_t bytes_before_values(const ParquetPage& page) {
  return page.kind == ParquetPage::Kind::DataV2 ? page.level_bytes + page.repetition_bytes : 0;
}

void check_sum(const ParquetPage& page) {
  if (!page.checksum) return;
  const auto* bytes = reinterpret_cast<const Bytef*>(page.bytes.data());
  if (crc32_z(0, bytes, page.bytes.size()) != *page.checksum) throw TableFault("a page does not have its checksum");
}

}  // namespace

ParquetPage read_parquet_page(std::string_view file, std::uint64_t begin) {
  if (begin >= file.size()) throw TableFault("a page begins behind the end of the pages");
  CompactReader in(file.substr(begin));
  ParquetPage page;
  std::int64_t kind = -1, compressed = -1;
  in.read_struct([&](std::int32_t id) {
    if (id == 1) kind = in.integer();
    if (id == 2) page.size = static_cast<std::size_t>(page_number(in));
    if (id == 3) compressed = page_number(in);
    if (id == 4) page.checksum = static_cast<std::uint32_t>(in.integer());
    if (id == 5) read_page_v1(in, page);
    if (id == 7) read_dictionary_page(in, page);
    if (id == 8) read_page_v2(in, page);
  });
  if (kind < 0 || kind > static_cast<int>(ParquetPage::Kind::DataV2)) {
    throw TableFault(fmt::format("a page is of kind {}, which there is not", kind));
  }
  if (compressed < 0) throw TableFault("a page does not say how long it is");
  page.kind = static_cast<ParquetPage::Kind>(kind);
  ByteReader bytes(file.substr(begin + in.position()));
  page.bytes = bytes.take(static_cast<std::size_t>(compressed));
  page.end = begin + in.position() + page.bytes.size();
  const std::size_t before = bytes_before_values(page);
  if (before > page.bytes.size() || before > page.size) throw TableFault("a page is shorter than its levels");
  return page;
}

KeptBytes content_of(const ParquetPage& page, PageCodec codec) {
  check_sum(page);
  const std::size_t before = bytes_before_values(page);
  const std::string_view stored = page.bytes.substr(before);
  if (codec == PageCodec::Plain || !page.is_compressed) return {stored, nullptr};
  const std::shared_ptr<const std::string> content = inflate_page(codec, stored, page.size - before);
  return {*content, content};
}

std::vector<std::uint32_t> validity_of(const ParquetPage& page, KeptBytes& content) {
  const auto count = static_cast<std::size_t>(page.values);
  if (page.kind == ParquetPage::Kind::DataV2) {
    return decode_run_lengths(page.bytes.substr(page.repetition_bytes, page.level_bytes), 1, count);
  }
  if (page.level_encoding != static_cast<int>(ParquetEncoding::RunLengths)) {
    throw TableFault(fmt::format("its nulls are written in encoding {}, which is not read", page.level_encoding),
                     "write the file again, with pyarrow or another program of today");
  }
  ByteReader in(content.view);
  const std::string_view levels = in.take(in.fixed32());
  content.view = in.left();
  return decode_run_lengths(levels, 1, count);
}

}  // namespace lockstep
