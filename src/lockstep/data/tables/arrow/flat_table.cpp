#include "lockstep/data/tables/arrow/flat_table.h"

#include "lockstep/data/tables/byte_reader.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {

FlatTable FlatTable::root(std::string_view bytes) {
  if (bytes.size() < 4) throw TableFault("a description in it is cut");
  return {bytes, static_cast<std::size_t>(ByteReader::number_of(bytes.substr(0, 4)))};
}

FlatTable::FlatTable(std::string_view bytes, std::size_t position) : bytes_(bytes), position_(position) {
  const std::int64_t back = signed_number(position_, 4);
  const std::int64_t names = static_cast<std::int64_t>(position_) - back;
  if (names < 0) throw TableFault("a description in it points outside of it");
  names_ = static_cast<std::size_t>(names);
  piece(names_, 4);
}

std::string_view FlatTable::piece(std::size_t at, std::size_t count) const {
  if (at > bytes_.size() || count > bytes_.size() - at) throw TableFault("a description in it points outside of it");
  return bytes_.substr(at, count);
}

std::size_t FlatTable::unsigned_number(std::size_t at, std::size_t width) const {
  return static_cast<std::size_t>(ByteReader::number_of(piece(at, width)));
}

std::int64_t FlatTable::signed_number(std::size_t at, std::size_t width) const {
  const auto unused = static_cast<int>(64 - 8 * width);
  return static_cast<std::int64_t>(ByteReader::number_of(piece(at, width)) << unused) >> unused;
}

std::size_t FlatTable::place_of(int field) const {
  const std::size_t entry = 4 + 2 * static_cast<std::size_t>(field);
  if (entry + 2 > unsigned_number(names_, 2)) return 0;
  const std::size_t offset = unsigned_number(names_ + entry, 2);
  return offset == 0 ? 0 : position_ + offset;
}

std::optional<FlatTable> FlatTable::table(int field) const {
  const std::size_t at = place_of(field);
  if (at == 0) return std::nullopt;
  return FlatTable(bytes_, target_of(at));
}

std::string_view FlatTable::structs(int field, std::size_t width) const {
  const std::size_t at = place_of(field);
  if (at == 0) return {};
  const std::size_t begin = target_of(at);
  return piece(begin + 4, unsigned_number(begin, 4) * width);
}

std::string_view FlatTable::text(int field) const { return structs(field, 1); }

std::vector<FlatTable> FlatTable::tables(int field) const {
  std::vector<FlatTable> tables;
  const std::string_view offsets = structs(field, 4);
  for (std::size_t i = 0; i < offsets.size(); i += 4) {
    const auto at = static_cast<std::size_t>(offsets.data() - bytes_.data()) + i;
    tables.push_back(FlatTable(bytes_, target_of(at)));
  }
  return tables;
}

}  // namespace lockstep
