#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/data/tables/byte_reader.h"

namespace lockstep {

/// Reads values in Thrift's compact protocol, in which Parquet describes its files:
/// github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
///
/// A value has the type that its field or list announced. To ask for another one is a TableFault; so is a depth of more
/// than 64.
class CompactReader {
 public:
  explicit CompactReader(std::string_view bytes) : bytes_(bytes) {}

  /// Calls `field(id)` for each field of a struct. It reads the value; what it does not read is skipped.
  template <typename Field>
  void read_struct(const Field& field) {
    begin_struct();
    std::int32_t id = 0;
    while (next_field(id)) {
      field(id);
      if (pending_ != Type::Stop) skip();
    }
    --depth_;
  }

  /// Calls `element()` for each element of a list, to read it.
  template <typename Element>
  void read_list(const Element& element) {
    const auto [count, type] = list_header();
    for (std::uint64_t i = 0; i < count; ++i) {
      pending_ = type;
      element();
      if (pending_ != Type::Stop) skip();
    }
    --depth_;
  }

  std::int64_t integer();
  bool boolean();
  std::string_view binary();

  /// The number of bytes that were read.
  std::size_t position() const { return bytes_.position(); }

 private:
  enum class Type : std::uint8_t {
    Stop,
    True,
    False,
    Byte,
    Int16,
    Int32,
    Int64,
    Double,
    Binary,
    List,
    Set,
    Map,
    Struct,
    Uuid
  };
  struct ListHeader {
    std::uint64_t count;
    Type type;
  };
  static constexpr int kMostDepth = 64;

  void begin_struct();
  bool next_field(std::int32_t& id);
  ListHeader list_header();
  void enter();
  void skip();
  void skip_map();
  static Type type_of(unsigned code);
  Type take_pending();

  ByteReader bytes_;
  Type pending_ = Type::Struct;  // of the value that comes next; Stop: it was read
  bool in_list_ = false;         // there a boolean is a byte of its own
  int depth_ = 0;
};

}  // namespace lockstep
