#include "lockstep/data/tables/parquet/parquet_column.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {

ParquetColumn::ParquetColumn(const ParquetMetadata& metadata, const ParquetField& field, const std::string& path)
    : metadata_(metadata), path_(path), field_(field) {
  try {
    find_pages();
  } catch (const TableFault& fault) {
    throw Error(fmt::format("cannot read the Parquet file: {}", fault.what()),
                fmt::format("{}, column \"{}\", from row {} on", path_, field_.field.name, rows_ + 1), fault.fix());
  }
}

void ParquetColumn::find_pages() {
  for (const ParquetRowGroup& group : metadata_.groups) find_pages_of(group);
}

void ParquetColumn::find_pages_of(const ParquetRowGroup& group) {
  const std::size_t index = dictionaries_.size();
  dictionaries_.emplace_back();
  const ParquetChunk& chunk = group.chunks[field_.leaf];
  if (chunk.is_encrypted) throw TableFault("the column is encrypted", "write it without encryption");
  if (chunk.is_elsewhere) throw TableFault("its pages are in another file", "write all of it into one file");
  require_codec(chunk.codec);
  if (chunk.physical_type != metadata_.nodes[field_.node].physical_type) {
    throw TableFault("the type of its pages is not that of the column");
  }
  if (chunk.values != group.rows) {
    throw TableFault(fmt::format("it has {} values for {} rows", chunk.values, group.rows));
  }
  std::int64_t left = group.rows;
  std::uint64_t at = chunk.first_page;
  while (left > 0) {
    const ParquetPage page = read_parquet_page(metadata_.pages, at);
    if (page.kind == ParquetPage::Kind::Dictionary) {
      if (dictionaries_[index].is_there) throw TableFault("a group of rows has two dictionaries");
      dictionaries_[index].is_there = true;
      dictionaries_[index].begin = at;
    }
    if (page.holds_rows()) {
      if (page.values > left) throw TableFault("its pages hold more values than it announces");
      if (page.values > 0) pages_.push_back({at, rows_, index});
      rows_ += page.values;
      left -= page.values;
    }
    at = page.end;
  }
}

std::size_t ParquetColumn::block_of(std::int64_t row) const {
  const auto behind = std::upper_bound(pages_.begin(), pages_.end(), row,
                                       [](std::int64_t wanted, const Page& page) { return wanted < page.first_row; });
  return static_cast<std::size_t>(behind - pages_.begin()) - 1;
}

PageCodec ParquetColumn::codec(std::size_t chunk) const {
  return static_cast<PageCodec>(metadata_.groups[chunk].chunks[field_.leaf].codec);
}

ColumnBlock ParquetColumn::decode(std::size_t block) const {
  try {
    return decode_page(pages_[block]);
  } catch (const TableFault& fault) {
    throw Error(fmt::format("cannot read the Parquet file: {}", fault.what()),
                fmt::format("{}, column \"{}\", from row {} on", path_, field_.field.name, first_row(block) + 1),
                fault.fix());
  }
}

ColumnBlock ParquetColumn::decode_page(const Page& at) const {
  const ParquetPage page = read_parquet_page(metadata_.pages, at.begin);
  KeptBytes content = content_of(page, codec(at.chunk));
  std::vector<std::uint32_t> entries;
  if (field_.may_hold_nulls) {
    entries = validity_of(page, content);
  } else {
    entries.assign(static_cast<std::size_t>(page.values), 1);
  }
  const auto count = static_cast<std::size_t>(std::count(entries.begin(), entries.end(), 1U));
  std::uint32_t next = 0;
  if (page.encoding == static_cast<int>(ParquetEncoding::Dictionary) ||
      page.encoding == static_cast<int>(ParquetEncoding::PlainDictionary)) {
    std::shared_ptr<const ValueList> values = dictionary(at.chunk);
    const std::vector<std::uint32_t> places = decode_places(content.view, count, values->size());
    for (std::uint32_t& entry : entries) entry = entry == 1 ? places[next++] : ColumnBlock::kNull;
    return {std::move(entries), std::move(values)};
  }
  for (std::uint32_t& entry : entries) entry = entry == 1 ? next++ : ColumnBlock::kNull;
  const ParquetNode& node = metadata_.nodes[field_.node];
  return {std::move(entries), std::make_shared<ValueList>(decode_values(content, page.encoding, count, node))};
}

std::shared_ptr<const ValueList> ParquetColumn::dictionary(std::size_t chunk) const {
  const Dictionary& dictionary = dictionaries_[chunk];
  if (!dictionary.is_there) throw TableFault("values are places in a dictionary that is not there");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (auto values = dictionary.values.lock()) return values;
  }
  ParquetPage page = read_parquet_page(metadata_.pages, dictionary.begin);
  if (page.encoding == static_cast<int>(ParquetEncoding::PlainDictionary)) page.encoding = 0;  // its old name
  const KeptBytes content = content_of(page, codec(chunk));
  // Every value takes a byte at least; booleans have no dictionary.
  if (static_cast<std::size_t>(page.values) > content.view.size()) {
    throw TableFault("a dictionary announces more values than it has bytes");
  }
  auto values = std::make_shared<const ValueList>(
      decode_values(content, page.encoding, static_cast<std::size_t>(page.values), metadata_.nodes[field_.node]));
  const std::lock_guard<std::mutex> lock(mutex_);
  dictionary.values = values;
  return values;
}

}  // namespace lockstep
