#include "lockstep/net/store/answer_fields.h"

#include "lockstep/net/store/store_protocol.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {

std::string text_field(std::string_view text) {
  WireWriter writer;
  writer.text(text);
  return writer.bytes();
}

std::string number_field(std::int64_t number) {
  WireWriter writer;
  writer.i64(number);
  return writer.bytes();
}

std::string flag_field(bool flag) {
  WireWriter writer;
  writer.u8(flag ? 1 : 0);
  return writer.bytes();
}

std::string optional_field(const std::string* text) {
  return text != nullptr ? flag_field(true) + text_field(*text) : flag_field(false);
}

std::string lost_field(const std::vector<LostRank>& lost) {
  WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(lost.size()));
  for (const LostRank& rank : lost) {
    writer.u32(static_cast<std::uint32_t>(rank.rank));
    writer.text(rank.host.substr(0, kMaxHostBytes));
    writer.text(std::string_view(rank.cause).substr(0, kMaxMessageBytes));
    writer.u8(rank.silent ? 1 : 0);
  }
  return writer.bytes();
}

}  // namespace lockstep
