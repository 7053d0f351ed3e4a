#include "lockstep/data/text/text_encoder.h"

#include <cassert>

namespace lockstep::text {

void TextEncoder::encode_normalized(const NormalizedText&, std::size_t, std::size_t, EncoderScratch&) const {
  assert(false && "an encoder that has a normalizer overrides this");
}

}  // namespace lockstep::text
