#include "lockstep/detail/safetensors/safetensors_header.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"

namespace lockstep::fuzz {

void run_safetensors_header(std::string_view bytes) {
  const SafetensorsHeader header = parse_safetensors_header(bytes, bytes.size(), "model.safetensors");
  LOCKSTEP_HOLDS(header.data_offset <= bytes.size());
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    LOCKSTEP_HOLDS(entry.begin_byte == end && entry.end_byte >= entry.begin_byte);
    end = entry.end_byte;
    std::uint64_t bits = safetensors_dtype_bits(entry.dtype);
    LOCKSTEP_HOLDS(bits > 0);
    for (const std::int64_t size : entry.shape) {
      LOCKSTEP_HOLDS(size >= 0);
      bits *= static_cast<std::uint64_t>(size);
    }
    LOCKSTEP_HOLDS(bits == entry.bytes() * 8);
  }
  LOCKSTEP_HOLDS(header.data_offset + end == bytes.size());
}

}  // namespace lockstep::fuzz
