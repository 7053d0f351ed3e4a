#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// A table of FlatBuffers, the format in which Arrow describes its data, in bytes that somebody else wrote:
/// flatbuffers.dev/internals. Fields have the numbers that their order in Arrow's Message.fbs and Schema.fbs gives
/// them. Every call throws TableFault if the bytes end before what they announce.
class FlatTable {
 public:
  /// The table that is the message `bytes`.
  static FlatTable root(std::string_view bytes);

  /// The number in a field; `otherwise` if the table does not have it.
  template <typename Number>
  Number number(int field, Number otherwise) const {
    const std::size_t at = place_of(field);
    return at == 0 ? otherwise : static_cast<Number>(signed_number(at, sizeof(Number)));
  }
  std::optional<FlatTable> table(int field) const;
  /// Empty if the table has no such field.
  std::string_view text(int field) const;
  /// Empty if the table has no such field.
  std::vector<FlatTable> tables(int field) const;
  /// The bytes of the message that the table is in.
  std::size_t message_bytes() const { return bytes_.size(); }
  /// A vector of structs or numbers of `width` bytes, one after the other.
  std::string_view structs(int field, std::size_t width) const;

 private:
  FlatTable(std::string_view bytes, std::size_t position);

  std::string_view piece(std::size_t at, std::size_t count) const;
  std::size_t unsigned_number(std::size_t at, std::size_t width) const;
  std::int64_t signed_number(std::size_t at, std::size_t width) const;
  std::size_t place_of(int field) const;
  std::size_t target_of(std::size_t at) const { return at + unsigned_number(at, 4); }

  std::string_view bytes_;
  std::size_t position_;
  std::size_t names_ = 0;  // where the table of the fields' places is
};

}  // namespace lockstep
