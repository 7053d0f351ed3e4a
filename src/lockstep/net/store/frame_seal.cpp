#include "lockstep/net/store/frame_seal.h"

#include "lockstep/net/store/wire.h"

namespace lockstep {

std::size_t FrameSeal::extra_bytes() const {
  if (std::holds_alternative<FrameMac>(kind_)) return kDigestBytes;
  return std::holds_alternative<RecordCipher>(kind_) ? RecordCipher::kTagBytes : 0;
}

void FrameSeal::seal(std::string_view header, std::string_view body, std::string& out) {
  if (auto* const cipher = std::get_if<RecordCipher>(&kind_)) {
    const std::size_t begin = out.size();
    out.resize(begin + body.size() + RecordCipher::kTagBytes);
    const iovec part{const_cast<char*>(body.data()), body.size()};
    return cipher->seal(header, &part, 1, out.data() + begin);
  }
  out += body;
  if (auto* const mac = std::get_if<FrameMac>(&kind_)) out += mac->next_tag(header, body);
}

std::string FrameSeal::open(std::string_view header, std::string_view sealed) {
  std::string body(sealed.substr(0, sealed.size() - extra_bytes()));
  bool right = true;
  if (auto* const cipher = std::get_if<RecordCipher>(&kind_)) {
    right = cipher->open(header, sealed, body.data());
  } else if (auto* const mac = std::get_if<FrameMac>(&kind_)) {
    right = equal_in_constant_time(mac->next_tag(header, body), sealed.substr(body.size()));
  }
  if (!right) {
    throw WireError("a message failed its authentication: it was changed on the way, repeated or injected");
  }
  return body;
}

FrameSeal sealing_seal(const std::string& key, bool encrypted) {
  return encrypted ? FrameSeal(RecordCipher(RecordCipher::Direction::Seal, key)) : FrameSeal(FrameMac(key));
}

FrameSeal opening_seal(const std::string& key, bool encrypted) {
  return encrypted ? FrameSeal(RecordCipher(RecordCipher::Direction::Open, key)) : FrameSeal(FrameMac(key));
}

}  // namespace lockstep
