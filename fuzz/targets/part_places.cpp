#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/checkpoint/files/part_metadata.h"

namespace lockstep::fuzz {

void run_part_places(std::string_view bytes) {
  const PartPlaces places = parse_part_places(std::string(bytes), "model_shard-00001-of-00002.safetensors");
  for (const auto& [name, place] : places) {
    std::int64_t numel = 1;
    for (const std::int64_t size : place.sizes) LOCKSTEP_HOLDS(!__builtin_mul_overflow(numel, size, &numel));
    LOCKSTEP_HOLDS(place.begin >= 0 && place.begin <= place.end && place.end <= numel);
  }
  const std::string written = part_places_json(places);
  LOCKSTEP_HOLDS(part_places_json(parse_part_places(written, "the same")) == written);
}

}  // namespace lockstep::fuzz
