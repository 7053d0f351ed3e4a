#include "lockstep/data/text/text_encoder.h"

#include <cassert>

namespace lockstep::text {

void TextEncoder::normalize(std::string_view, std::uint32_t, bool, NormalizedText&) const {
  assert(false && "an encoder that normalizes overrides this");
}

void TextEncoder::encode_normalized(const NormalizedText&, std::size_t, std::size_t, EncoderScratch&) const {
  assert(false && "an encoder that normalizes overrides this");
}

}  // namespace lockstep::text
