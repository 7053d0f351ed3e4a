#include "lockstep/data/tables/parquet/compact_reader.h"

#include <utility>

#include "lockstep/data/tables/table_fault.h"

namespace lockstep {

CompactReader::Type CompactReader::type_of(unsigned code) {
  if (code == 0 || code > static_cast<unsigned>(Type::Uuid)) throw TableFault("its description has an unknown type");
  return static_cast<Type>(code);
}

CompactReader::Type CompactReader::take_pending() { return std::exchange(pending_, Type::Stop); }

void CompactReader::enter() {
  if (++depth_ > kMostDepth) throw TableFault("its description is nested too deeply");
}

void CompactReader::begin_struct() {
  if (take_pending() != Type::Struct) throw TableFault("its description has a value where a struct belongs");
  enter();
}

bool CompactReader::next_field(std::int32_t& id) {
  const std::uint8_t header = bytes_.byte();
  if (header == 0) return false;
  const std::int64_t next = header >> 4 != 0 ? id + (header >> 4) : bytes_.zigzag();
  if (next < -0x8000 || next > 0x7FFF) throw TableFault("its description has a field of no valid number");
  id = static_cast<std::int32_t>(next);
  pending_ = type_of(header & 0x0FU);
  in_list_ = false;
  return true;
}

CompactReader::ListHeader CompactReader::list_header() {
  const Type type = take_pending();
  if (type != Type::List && type != Type::Set) throw TableFault("its description has a value where a list belongs");
  enter();
  const std::uint8_t header = bytes_.byte();
  const std::uint64_t count = header >> 4 == 15 ? bytes_.varint() : header >> 4;
  // Every element takes a byte at least.
  if (count > bytes_.left().size()) throw TableFault("its description has a list that is longer than the file");
  in_list_ = true;
  return {count, count == 0 ? Type::Stop : type_of(header & 0x0FU)};
}

std::int64_t CompactReader::integer() {
  switch (take_pending()) {
    case Type::Byte:
      return static_cast<std::int8_t>(bytes_.byte());
    case Type::Int16:
    case Type::Int32:
    case Type::Int64:
      return bytes_.zigzag();
    default:
      throw TableFault("its description has another value where a number belongs");
  }
}

bool CompactReader::boolean() {
  const Type type = take_pending();
  if (type != Type::True && type != Type::False) throw TableFault("its description has no boolean where one belongs");
  return in_list_ ? bytes_.byte() == 1 : type == Type::True;
}

std::string_view CompactReader::binary() {
  if (take_pending() != Type::Binary) throw TableFault("its description has another value where a text belongs");
  return bytes_.take(bytes_.varint());
}

void CompactReader::skip_map() {
  take_pending();
  enter();
  const std::uint64_t count = bytes_.varint();
  if (count > bytes_.left().size()) throw TableFault("its description has a map that is longer than the file");
  const std::uint8_t types = count == 0 ? 0 : bytes_.byte();
  for (std::uint64_t i = 0; i < count; ++i) {
    for (const int code : {types >> 4, types & 0x0F}) {
      pending_ = type_of(static_cast<unsigned>(code));
      in_list_ = true;
      skip();
    }
  }
  --depth_;
}

void CompactReader::skip() {
  switch (pending_) {
    case Type::True:
    case Type::False:
      boolean();
      break;
    case Type::Byte:
    case Type::Int16:
    case Type::Int32:
    case Type::Int64:
      integer();
      break;
    case Type::Double:
      take_pending();
      bytes_.take(8);
      break;
    case Type::Uuid:
      take_pending();
      bytes_.take(16);
      break;
    case Type::Binary:
      binary();
      break;
    case Type::List:
    case Type::Set:
      read_list([this] {
        in_list_ = true;
        skip();
      });
      break;
    case Type::Map:
      skip_map();
      break;
    default:
      read_struct([](std::int32_t) {});
  }
}

}  // namespace lockstep
