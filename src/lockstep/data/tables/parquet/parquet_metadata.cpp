#include "lockstep/data/tables/parquet/parquet_metadata.h"

#include <fmt/format.h>

#include "lockstep/data/tables/parquet/compact_reader.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr std::string_view kEncryptedMagic = "PARE";
constexpr const char* kDecrypt = "write it without encryption; the keys are not Lockstep's to hold";

void read_unit(CompactReader& in, ParquetNode& node) {
  in.read_struct([&](std::int32_t id) { node.unit = id; });
}

void read_time(CompactReader& in, ParquetNode& node) {
  in.read_struct([&](std::int32_t id) {
    if (id == 1) node.is_utc = in.boolean();
    if (id == 2) read_unit(in, node);
  });
}

void read_logical_type(CompactReader& in, ParquetNode& node) {
  constexpr std::int32_t kDecimalField = 5, kTimeField = 7, kTimestampField = 8, kIntegerField = 10;
  in.read_struct([&](std::int32_t type) {
    node.logical_type = type;
    if (type == kTimeField || type == kTimestampField) read_time(in, node);
    if (type == kDecimalField) {
      in.read_struct([&](std::int32_t id) {
        if (id == 1) node.scale = in.integer();
        if (id == 2) node.precision = in.integer();
      });
    }
    if (type == kIntegerField) {
      in.read_struct([&](std::int32_t id) {
        if (id == 1) node.bits = in.integer();
        if (id == 2) node.is_signed = in.boolean();
      });
    }
  });
}

ParquetNode read_node(CompactReader& in) {
  ParquetNode node;
  in.read_struct([&](std::int32_t id) {
    if (id == 1) node.physical_type = in.integer();
    if (id == 2) node.type_length = in.integer();
    if (id == 3) node.repetition = in.integer();
    if (id == 4) node.name = in.binary();
    if (id == 5) node.children = in.integer();
    if (id == 6) node.converted_type = in.integer();
    if (id == 7) node.scale = in.integer();
    if (id == 8) node.precision = in.integer();
    if (id == 10) read_logical_type(in, node);
  });
  return node;
}

void read_chunk_metadata(CompactReader& in, ParquetChunk& chunk) {
  std::int64_t data_page = -1, dictionary_page = -1;
  in.read_struct([&](std::int32_t id) {
    if (id == 1) chunk.physical_type = in.integer();
    if (id == 4) chunk.codec = in.integer();
    if (id == 5) chunk.values = in.integer();
    if (id == 9) data_page = in.integer();
    if (id == 11) dictionary_page = in.integer();
  });
  if (data_page < 0) throw TableFault("a column's pages have no place in it");
  // Some writers store 0 if there is no dictionary, and some put it at the place of the data.
  const bool has_dictionary = dictionary_page > 0 && dictionary_page < data_page;
  chunk.first_page = static_cast<std::uint64_t>(has_dictionary ? dictionary_page : data_page);
}

ParquetChunk read_chunk(CompactReader& in) {
  ParquetChunk chunk;
  bool has_metadata = false;
  in.read_struct([&](std::int32_t id) {
    if (id == 1) chunk.is_elsewhere = !in.binary().empty();
    if (id == 3) read_chunk_metadata(in, chunk);
    if (id == 3) has_metadata = true;
    if (id == 8) chunk.is_encrypted = true;
  });
  if (!has_metadata && !chunk.is_encrypted) throw TableFault("a column has no description");
  return chunk;
}

ParquetRowGroup read_group(CompactReader& in) {
  ParquetRowGroup group;
  in.read_struct([&](std::int32_t id) {
    if (id == 1) in.read_list([&] { group.chunks.push_back(read_chunk(in)); });
    if (id == 3) group.rows = in.integer();
  });
  if (group.chunks.empty()) throw TableFault("a group of rows in it has no columns");
  return group;
}

void add_node(CompactReader& in, std::vector<ParquetNode>& nodes) {
  constexpr std::size_t kMostNodes = 1 << 20;
  if (nodes.size() == kMostNodes) throw TableFault("it has more than a million columns");
  nodes.push_back(read_node(in));
}

std::pair<std::string, std::string> read_text_pair(CompactReader& in) {
  std::pair<std::string, std::string> pair;
  in.read_struct([&](std::int32_t id) {
    if (id == 1) pair.first = in.binary();
    if (id == 2) pair.second = in.binary();
  });
  return pair;
}

void check_rows(const ParquetMetadata& metadata, std::size_t file_bytes) {
  const std::int64_t most = most_rows(file_bytes);
  std::int64_t rows = 0;
  for (const ParquetRowGroup& group : metadata.groups) {
    if (group.rows < 0 || group.rows > most) {
      throw TableFault(fmt::format("a group of rows in it announces {} rows", group.rows));
    }
    rows += group.rows;
    if (rows > most) break;
  }
  if (rows == metadata.rows && rows <= most) return;
  throw TableFault(fmt::format("it announces {} rows, and its groups of rows {}", metadata.rows, rows));
}

}  // namespace

std::int64_t most_rows(std::size_t file_bytes) {
  constexpr std::int64_t kSmallFile = std::int64_t{1} << 24;
  return kSmallFile + 8 * static_cast<std::int64_t>(file_bytes);
}

ParquetMetadata read_parquet_metadata(std::string_view file) {
  constexpr std::size_t kEnd = 8;  // the length of the description, and the magic
  const std::string_view last = file.size() < kEnd ? "" : file.substr(file.size() - kMagic.size());
  if (last == kEncryptedMagic || file.substr(0, kMagic.size()) == kEncryptedMagic) {
    throw TableFault("it is encrypted", kDecrypt);
  }
  if (file.substr(0, kMagic.size()) != kMagic) throw TableFault("it does not begin as Parquet does");
  if (last != kMagic || file.size() < kEnd + kMagic.size()) {
    throw TableFault("it does not end as Parquet does", "the file is cut: write it again, or fetch it again");
  }
  const std::uint64_t bytes = ByteReader::number_of(file.substr(file.size() - kEnd, 4));
  if (bytes > file.size() - kEnd - kMagic.size()) throw TableFault("its description is longer than the file");
  ParquetMetadata metadata;
  metadata.pages = file.substr(0, file.size() - kEnd - bytes);
  CompactReader in(file.substr(metadata.pages.size(), bytes));
  in.read_struct([&](std::int32_t id) {
    if (id == 2) in.read_list([&] { add_node(in, metadata.nodes); });
    if (id == 3) metadata.rows = in.integer();
    if (id == 4) in.read_list([&] { metadata.groups.push_back(read_group(in)); });
    if (id == 5) in.read_list([&] { metadata.texts.push_back(read_text_pair(in)); });
    if (id == 8) throw TableFault("it is encrypted", kDecrypt);
  });
  check_rows(metadata, file.size());
  return metadata;
}

}  // namespace lockstep
