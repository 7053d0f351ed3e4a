#include <algorithm>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/checkpoint/files/optimizer_metadata.h"

namespace lockstep::fuzz {

// The bytes are two texts, of which the first line end is the border: "state" and "groups".
void run_optimizer_metadata(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  std::map<std::string, std::string> texts{{"state", std::string(bytes.substr(0, end))}};
  if (end < bytes.size()) texts.emplace("groups", bytes.substr(end + 1));
  const OptimizerMetadata metadata = parse_optimizer_metadata(texts, "optimizer.safetensors");
  for (const auto& [name, parameter] : metadata.parameters) {
    LOCKSTEP_HOLDS(parameter.begin >= 0 && parameter.begin <= parameter.end && parameter.step >= 0);
    std::int64_t numel = 1;
    for (const std::int64_t size : parameter.sizes) LOCKSTEP_HOLDS(!__builtin_mul_overflow(numel, size, &numel));
    LOCKSTEP_HOLDS(parameter.end <= numel);
  }
  const auto written = optimizer_metadata_texts(metadata);
  LOCKSTEP_HOLDS(optimizer_metadata_texts(parse_optimizer_metadata(written, "optimizer.safetensors")) == written);
}

}  // namespace lockstep::fuzz
