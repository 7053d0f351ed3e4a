#include "lockstep/data/tables/arrow/arrow_messages.h"

#include <fmt/format.h>

#include "lockstep/data/tables/byte_reader.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

constexpr std::string_view kFileBegin = "ARROW1";
constexpr std::uint32_t kContinues = 0xFFFFFFFFU;

}  // namespace

ArrowMessages::ArrowMessages(std::string_view file) : left_(file) {
  constexpr std::size_t kPadded = 8;
  if (file.substr(0, kFileBegin.size()) == kFileBegin) left_.remove_prefix(std::min(kPadded, file.size()));
  if (left_.size() < 8 || ByteReader::number_of(left_.substr(0, 4)) != kContinues) {
    throw TableFault("it does not begin as a file or a stream of Arrow does");
  }
}

std::optional<ArrowMessage> ArrowMessages::next() {
  if (left_.empty()) return std::nullopt;  // a stream may end without the mark
  ByteReader in(left_);
  if (in.fixed32() != kContinues) throw TableFault("a message does not begin as one");
  const std::uint32_t size = in.fixed32();
  if (size == 0) return std::nullopt;
  const FlatTable message = FlatTable::root(in.take(size));
  const auto kind = message.number<std::uint8_t>(1, 0);
  const auto bytes = message.number<std::int64_t>(3, 0);
  if (bytes < 0) throw TableFault("a message announces less than no bytes");
  const std::string_view body = in.take(static_cast<std::size_t>(bytes));
  left_ = in.left();
  const std::optional<FlatTable> content = message.table(2);
  if (!content || kind == 0 || kind > static_cast<int>(ArrowMessage::Kind::Rows)) {
    throw TableFault(fmt::format("a message is of kind {}, which holds no rows", kind));
  }
  return ArrowMessage{static_cast<ArrowMessage::Kind>(kind), *content, body};
}

}  // namespace lockstep
